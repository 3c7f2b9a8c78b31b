// SPDX-License-Identifier: Apache-2.0
#include "session.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstdlib>
#include <mutex>

#include "brevis/log.h"
#include "push.h"

namespace brevis::fs {

namespace {

// The library reports through one process-wide function; what it said last explains a failed mount.
std::mutex g_said_mutex;
std::string g_said;

void on_library_log(fuse_log_level, const char* format, va_list arguments) {
  char text[1024];
  const int length = vsnprintf(text, sizeof text, format, arguments);
  if (length <= 0) return;
  std::string line(text);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  if (line.starts_with("fuse: ")) line.erase(0, 6);
  log(LogLevel::debug, line, {{"from", "libfuse"}});
  std::lock_guard lock(g_said_mutex);
  g_said = std::move(line);
}

std::string library_said() {
  std::lock_guard lock(g_said_mutex);
  return g_said;
}

// Spare threads at most: hanging storage holds up one request each, and a user who waits sends few.
constexpr unsigned kSpareThreads = 64;
// A thread hangs when one request has taken so long: decoding never does, a disk in trouble may.
constexpr std::chrono::milliseconds kHanging{1000};

int64_t steady_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// The signal that wakes a loop thread out of its read of /dev/fuse.
constexpr int kWakeSignal = SIGUSR2;

void signal_once(int fd) {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(fd, &one, sizeof one);
}

// -o arguments as the library takes them; commas and backslashes in paths are escaped.
class Arguments {
 public:
  Arguments() { fuse_opt_add_arg(&args_, "brevis-mount"); }
  ~Arguments() { fuse_opt_free_args(&args_); }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  void option(const std::string& text) {
    char* list = nullptr;
    fuse_opt_add_opt_escaped(&list, text.c_str());
    fuse_opt_add_arg(&args_, "-o");
    fuse_opt_add_arg(&args_, list);
    std::free(list);
  }
  fuse_args* get() { return &args_; }

 private:
  fuse_args args_ = FUSE_ARGS_INIT(0, nullptr);
};

void fill(Arguments& arguments, const SessionOptions& options) {
  bool named = false;
  for (const std::string& option : options.mount_options) {
    arguments.option(option);
    named = named || option.starts_with("fsname=");
  }
  if (!named) arguments.option("fsname=brevis:" + options.source);
  arguments.option("subtype=brevis");
  arguments.option("ro");                   // so that writers are told EROFS by the kernel
  arguments.option("default_permissions");  // file modes hold, also with allow_other
  if (options.allow_other) arguments.option("allow_other");
  if (options.allow_root) arguments.option("allow_root");
}

}  // namespace

Session::Session(const SessionOptions& options, Volume& volume)
    : options_(options),
      service_{volume, options.max_background, {}, options.control},
      busy_(options.loop_threads + kSpareThreads) {
  ready_fd_ = eventfd(0, EFD_CLOEXEC);
  ended_fd_ = eventfd(0, EFD_CLOEXEC);
  crowded_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

Result<std::unique_ptr<Session>> Session::mount(const SessionOptions& options, Volume& volume) {
  std::unique_ptr<Session> self(new Session(options, volume));
  if (self->ready_fd_ < 0 || self->ended_fd_ < 0 || self->crowded_fd_ < 0)
    return Error::from_errno(errno, "cannot make an event descriptor");
  fuse_set_log_func(on_library_log);
  Arguments arguments;
  fill(arguments, options);
  self->session_ = fuse_session_new(arguments.get(), &request_table(), sizeof(fuse_lowlevel_ops), &self->service_);
  if (!self->session_) return make_error(Errc::invalid_argument, "the mount options were refused: " + library_said());
  if (fuse_session_mount(self->session_, options.mountpoint.c_str()) != 0) {
    const std::string said = library_said();
    const bool denied = said.find("not permitted") != std::string::npos || said.find("denied") != std::string::npos;
    return make_error(denied ? Errc::permission : Errc::unavailable,
                      "cannot mount on " + options.mountpoint + (said.empty() ? "" : ": " + said));
  }
  self->entry_ = mount_at(options.mountpoint);
  return self;
}

// The mount itself was taken off by whoever ended the session; the library's own unmounting would take off whatever
// lies at the path by now.
Session::~Session() {
  if (session_) fuse_session_destroy(session_);
  for (int fd : {ready_fd_, ended_fd_, crowded_fd_})
    if (fd >= 0) close(fd);
}

Status Session::start() {
  struct sigaction action = {};
  action.sa_handler = [](int) {};  // without SA_RESTART: only to end a read
  sigemptyset(&action.sa_mask);
  sigaction(kWakeSignal, &action, nullptr);
  for (unsigned i = 0; i < options_.loop_threads; ++i) BREVIS_TRY(add_thread());
  return {};
}

Status Session::add_thread() {
  ++running_;  // before it runs, so that the count cannot touch zero in between
  try {
    threads_.emplace_back([this, &busy = busy_[threads_.size()]] { loop(busy); });
  } catch (const std::system_error& e) {
    --running_;
    return make_error(Errc::internal, std::string("cannot start a thread: ") + e.what());
  }
  return {};
}

void Session::loop(std::atomic<int64_t>& busy_since) {
  fuse_buf buffer = {};
  while (!stopping_.load(std::memory_order_relaxed)) {
    const int got = fuse_session_receive_buf(session_, &buffer);
    if (got == -EINTR || got == -EAGAIN) continue;
    if (got <= 0) break;  // unmounted, or the connection is gone
    busy_since.store(steady_ns(), std::memory_order_relaxed);
    if (++in_request_ >= running_.load() && !crowded_told_.load(std::memory_order_relaxed) &&
        !crowded_told_.exchange(true))
      signal_once(crowded_fd_);
    fuse_session_process_buf(session_, &buffer);
    --in_request_;
    busy_since.store(0, std::memory_order_relaxed);
    // The request that set `initialised` is answered when its processing returns.
    if (!ready_told_.load(std::memory_order_relaxed) && service_.initialised.load(std::memory_order_acquire) &&
        !ready_told_.exchange(true))
      signal_once(ready_fd_);
  }
  std::free(buffer.mem);
  if (--running_ == 0) signal_once(ended_fd_);
}

void Session::forget_name(NodeId directory, const std::string& name) {
  fuse_lowlevel_notify_inval_entry(session_, directory, name.c_str(), name.size());  // ENOENT: it does not remember any
}

bool Session::store(NodeId node, uint64_t offset, const ReadResult& bytes) {
  return store_in_page_cache(session_, node, offset, bytes);
}

int Session::connection_fd() const { return fuse_session_fd(session_); }

bool Session::left_behind() const {
  pollfd connection{fuse_session_fd(session_), 0, 0};
  const bool cut = poll(&connection, 1, 0) > 0 && (connection.revents & POLLERR) != 0;
  return on_top() && (!cut || is_dead(options_.mountpoint));
}

bool Session::on_top() const {
  const auto now = mount_at(options_.mountpoint);
  return now && entry_ && now->same_file_system(*entry_);
}

bool Session::relieve() {
  if (in_request_.load() < threads_.size()) {
    uint64_t told = 0;
    [[maybe_unused]] const ssize_t got = read(crowded_fd_, &told, sizeof told);
    crowded_told_ = false;
    return in_request_.load() >= threads_.size();  // became busy again in between and was not told
  }
  if (!stuck(kHanging) || threads_.size() >= busy_.size()) return true;
  // Twice as many each time: a hundred waiting users shall not cost the others a hundred seconds.
  const size_t spares = threads_.size() - options_.loop_threads;
  const size_t wanted = std::min(busy_.size(), threads_.size() + std::max<size_t>(spares, 1));
  while (threads_.size() < wanted) {
    if (const Status added = add_thread(); !added) {
      log(LogLevel::error, added.error().message());
      return true;
    }
  }
  log(LogLevel::warning, "every thread waits for the source's file system: others join",
      {{"threads", std::to_string(threads_.size())}});
  return true;
}

bool Session::stuck(std::chrono::milliseconds limit) const {
  const int64_t before = steady_ns() - std::chrono::nanoseconds(limit).count();
  for (size_t i = 0; i < threads_.size(); ++i) {
    const int64_t since = busy_[i].load(std::memory_order_relaxed);
    if (since == 0 || since > before) return false;
  }
  return true;
}

bool Session::stop(std::chrono::milliseconds limit) {
  stopping_ = true;
  // A thread may look at the flag just before it falls asleep: knock until all have gone.
  constexpr std::chrono::milliseconds kKnockEvery{20};
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (running_.load() > 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    for (std::thread& thread : threads_) pthread_kill(thread.native_handle(), kWakeSignal);
    std::this_thread::sleep_for(kKnockEvery);
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  return true;
}

}  // namespace brevis::fs
