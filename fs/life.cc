// SPDX-License-Identifier: Apache-2.0
#include "life.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "brevis/log.h"
#include "log_sink.h"
#include "mounts.h"
#include "notify.h"

namespace brevis::fs {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// A stream then has two requests of the largest size under way, which keeps two cores decoding; 4 MiB gave hardly more
// to streams, while each fault at a random place of a mapping fetches as much as this around it.
constexpr unsigned kReadaheadKib = 4096;

// With threads that are to end and may hang in storage.
constexpr milliseconds kPatience{3000};

// How often busy threads are looked after.
constexpr milliseconds kLookEvery{500};

sigset_t handled_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int s : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&set, s);
  return set;
}

class Life {
 public:
  Life(Session& session, SideDoors& doors, Guard& guard, const Options& options, Background& background)
      : session_(session), doors_(doors), guard_(guard), options_(options), background_(background) {}
  ~Life() {
    if (signals_ >= 0) close(signals_);
  }

  Status run();

 private:
  Status wait_for_events(bool& ended);
  int timeout_ms() const;
  void on_timers();
  void on_ready();
  void on_signal(int number);
  void on_stop();
  Status leave();

  Session& session_;
  SideDoors& doors_;
  Guard& guard_;
  const Options& options_;
  Background& background_;
  int signals_ = -1;
  bool ready_ = false, crowded_ = false, stopping_ = false, at_once_ = false;
  Clock::time_point deadline_{};  // of the grace time, when stopping
  milliseconds watchdog_{};
  Clock::time_point next_ping_{}, next_look_{};
};

Status Life::run() {
  const sigset_t set = handled_signals();
  signals_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  if (signals_ < 0) return Error::from_errno(errno, "cannot watch for signals");
  watchdog_ = watchdog_interval();
  next_ping_ = Clock::now() + watchdog_;
  bool ended = false;
  while (!ended && !at_once_) {
    BREVIS_TRY(wait_for_events(ended));
    on_timers();
  }
  return leave();
}

Status Life::wait_for_events(bool& ended) {
  enum { kSignals, kEnded, kReady, kCrowded, kUnguarded, kCount };
  pollfd fds[kCount] = {{signals_, POLLIN, 0},
                        {session_.ended_fd(), POLLIN, 0},
                        {ready_ ? -1 : session_.ready_fd(), POLLIN, 0},
                        {crowded_ ? -1 : session_.crowded_fd(), POLLIN, 0},
                        {guard_.ended_fd(), POLLIN, 0}};
  if (poll(fds, kCount, timeout_ms()) < 0 && errno != EINTR) return Error::from_errno(errno, "cannot wait for events");
  if (fds[kReady].revents) on_ready();
  if (fds[kSignals].revents) {
    signalfd_siginfo info;
    while (read(signals_, &info, sizeof info) == sizeof info) on_signal(static_cast<int>(info.ssi_signo));
  }
  if (fds[kUnguarded].revents) {
    guard_.end();
    log(LogLevel::warning, "the guard was ended: should the daemon be killed, too, the mount may hang");
  }
  if (fds[kCrowded].revents) {
    crowded_ = true;
    next_look_ = Clock::now() + kLookEvery;
  }
  ended = fds[kEnded].revents != 0;
  return {};
}

int Life::timeout_ms() const {
  auto next = Clock::time_point::max();
  if (stopping_) next = std::min(next, deadline_);
  if (crowded_) next = std::min(next, next_look_);
  if (watchdog_.count() > 0) next = std::min(next, next_ping_);
  if (next == Clock::time_point::max()) return -1;
  const auto left = std::chrono::ceil<milliseconds>(next - Clock::now()).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 60'000));
}

void Life::on_timers() {
  const auto now = Clock::now();
  if (stopping_ && now >= deadline_) {
    log(LogLevel::warning, "files are still open: they are cut off now",
        {{"grace_seconds", std::to_string(options_.grace_seconds)}});
    at_once_ = true;
  }
  if (crowded_ && now >= next_look_) {
    crowded_ = session_.relieve();
    next_look_ = now + kLookEvery;
  }
  if (watchdog_.count() > 0 && now >= next_ping_) {
    next_ping_ = now + watchdog_;
    if (session_.stuck(watchdog_))
      log(LogLevel::error, "every thread hangs in a request: the watchdog is not told that all is well");
    else
      notify_manager("WATCHDOG=1");
  }
}

void Life::on_ready() {
  ready_ = true;
  // Only now: inside the kernel's INIT exchange the value would be set back.
  if (session_.entry()) set_kernel_readahead(*session_.entry(), kReadaheadKib);
  background_.leave_terminal();
  log(LogLevel::info, "mounted",
      {{"source", options_.source}, {"mountpoint", session_.mountpoint()}, {"pid", std::to_string(getpid())}});
  background_.ready();
  notify_manager("READY=1\nMAINPID=" + std::to_string(getpid()) + "\nSTATUS=serving " + session_.mountpoint());
}

void Life::on_signal(int number) {
  switch (number) {
    case SIGHUP:
      reopen_log();
      doors_.rescan();
      log(LogLevel::info, "looking again at the tree", {{"source", options_.source}});
      break;
    case SIGUSR1: log(LogLevel::info, "counters", metrics_fields(doors_.numbers())); break;
    default: on_stop();
  }
}

void Life::on_stop() {
  if (stopping_) {
    at_once_ = true;
    return;
  }
  stopping_ = true;
  deadline_ = Clock::now() + std::chrono::seconds(options_.grace_seconds);
  notify_manager("STOPPING=1");
  // What callers had us do is cut off at once: it leaves nothing half done.
  if (!doors_.end_work(kPatience)) log(LogLevel::warning, "work at the control socket hangs: it is left behind");
  if (!session_.on_top()) {
    log(LogLevel::warning, "another mount lies on ours, which stays until that one is taken off",
        {{"mountpoint", session_.mountpoint()}});
    return;
  }
  if (unmount(session_.mountpoint())) return;
  if (const Status detached = detach(session_.mountpoint()); !detached)
    log(LogLevel::error, detached.error().message());
  else
    log(LogLevel::info, "files are open: detached, serving them for the grace time",
        {{"grace_seconds", std::to_string(options_.grace_seconds)}});
}

// The threads have ended, or shall.
Status Life::leave() {
  // Pushes and the watch speak through the session, and wait for answers that its threads give.
  const bool quiet = doors_.end(kPatience);
  const bool clean = session_.stop(kPatience) && quiet;
  const bool left_behind = session_.left_behind();
  if (left_behind && !detach(session_.mountpoint()))
    log(LogLevel::warning, "the dead mount could not be taken off", {{"mountpoint", session_.mountpoint()}});
  log(LogLevel::info, "ended", {{"mountpoint", session_.mountpoint()}});
  if (!clean) _exit(0);  // a thread hangs in storage that does not answer; nothing of ours is worth waiting for
  if (stopping_ || !left_behind) return {};
  return make_error(Errc::io, "the connection to the kernel was cut while mounted on " + session_.mountpoint());
}

}  // namespace

void block_signals() {
  const sigset_t set = handled_signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

Status run_until_end(Session& session, SideDoors& doors, Guard& guard, const Options& options, Background& background) {
  return Life(session, doors, guard, options, background).run();
}

}  // namespace brevis::fs
