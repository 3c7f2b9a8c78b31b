// SPDX-License-Identifier: Apache-2.0
#include "control_connection.h"

#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/post.hpp>
#include <cerrno>
#include <cstring>

#include "brevis/control.h"
#include "brevis/log.h"

namespace brevis::fs {

namespace {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;

constexpr std::chrono::seconds kPatience{60};  // with a caller who owes us bytes, or does not take ours
constexpr int kUsage = 2;

}  // namespace

ControlConnection::ControlConnection(asio::io_context& loop, int fd, std::shared_ptr<int> count, ControlShared& shared)
    : loop_(loop), fd_(loop, fd), deadline_(loop), count_(std::move(count)), shared_(shared) {}

ControlConnection::~ControlConnection() {
  if (passed_fd_ >= 0) close(passed_fd_);
}

void ControlConnection::start() {
  if (!caller_is_allowed()) {
    ending_ = true;
    return say(control_failure(
        make_error(Errc::permission, "only the user who mounted and root may use the control socket"), 77));
  }
  watch_time();
  await_bytes();
}

bool ControlConnection::caller_is_allowed() const {
  ucred caller = {};
  socklen_t length = sizeof caller;
  if (getsockopt(const_cast<Descriptor&>(fd_).native_handle(), SOL_SOCKET, SO_PEERCRED, &caller, &length) != 0)
    return false;
  return caller.uid == 0 || caller.uid == geteuid();
}

void ControlConnection::await_bytes() {
  fd_.async_wait(Descriptor::wait_read, [self = shared_from_this()](auto failed) {
    if (!failed) self->on_bytes();
  });
}

void ControlConnection::on_bytes() {
  if (!take_bytes()) return end();
  if (!working_) next_request();
  if (!fd_.is_open() || ending_) return;
  if (!heard_all_) return await_bytes();
  // Whether he has gone altogether shows when he is told something.
  if (!working_) end_when_said();
}

void ControlConnection::end_when_said() {
  ending_ = true;
  if (to_send_.empty()) end();
}

// At most one descriptor is taken, that of the request being read; others are closed at once.
bool ControlConnection::take_bytes() {
  constexpr size_t kMostPassed = 8;
  char bytes[4096];
  for (;;) {
    iovec part = {bytes, sizeof bytes};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMostPassed)];
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t got = recvmsg(fd_.native_handle(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN;
    for (cmsghdr* head = CMSG_FIRSTHDR(&message); head; head = CMSG_NXTHDR(&message, head)) {
      if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
      const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
      for (size_t i = 0; i < count; ++i) {
        int fd = -1;
        std::memcpy(&fd, CMSG_DATA(head) + i * sizeof fd, sizeof fd);
        if (passed_fd_ < 0)
          passed_fd_ = fd;
        else
          close(fd);
      }
    }
    if (got == 0) return heard_all_ = true;
    received_.append(bytes, static_cast<size_t>(got));
    // While one request is worked on the next may wait, no more.
    if (received_.size() > 2 * kMaxControlRequest) return false;
  }
}

int ControlConnection::take_passed() { return std::exchange(passed_fd_, -1); }

void ControlConnection::next_request() {
  while (!working_ && !ending_ && fd_.is_open()) {
    const size_t end_of_line = received_.find('\n');
    if (end_of_line == received_.npos) {
      if (received_.size() <= kMaxControlRequest) return;
      ending_ = true;
      return say(control_failure(make_error(Errc::invalid_argument, "a request longer than 64 KiB"), kUsage));
    }
    const std::string line = received_.substr(0, end_of_line);
    received_.erase(0, end_of_line + 1);
    const auto request = parse_control_request(line);
    if (!request) {
      if (const int passed = take_passed(); passed >= 0) close(passed);
      say(control_failure(request.error(), kUsage));
      continue;
    }
    if (request->command == ControlCommand::put || request->command == ControlCommand::remove)
      return begin_work(*request);
    say(shared_.actions.answer(*request));
  }
}

void ControlConnection::begin_work(const ControlRequest& request) {
  working_ = true;
  deadline_.cancel();
  const auto self = shared_from_this();
  ControlJob job;
  job.file_fd = take_passed();
  job.cancelled = [gone = gone_, &stopping = shared_.stopping] { return gone->load() || stopping.load(); };
  // Whoever reads slowly hears less often: a line is only added when the last has left.
  job.progress = [self](uint64_t done, uint64_t all) {
    asio::post(self->loop_, [self, done, all] {
      if (self->to_send_.empty()) self->say(control_progress(done, all));
    });
  };
  asio::post(shared_.jobs, [self, request, job] {
    std::string line;
    try {
      line = self->shared_.actions.work(request, job);
    } catch (const std::exception& e) {
      log(LogLevel::error, "a control request failed inside brevis-mount", {{"cause", e.what()}});
      line = control_failure(make_error(Errc::internal, e.what()), 70);
    }
    if (job.file_fd >= 0) close(job.file_fd);
    asio::post(self->loop_, [self, line = std::move(line)]() mutable {
      self->working_ = false;
      self->say(std::move(line));
      self->watch_time();
      self->next_request();
      if (self->heard_all_ && !self->working_) self->end_when_said();
    });
  });
}

void ControlConnection::say(std::string line) {
  if (!fd_.is_open()) return;
  if (to_send_.size() + line.size() > kMaxControlReply) return end();
  to_send_ += line;
  if (!writing_) write_some();
}

void ControlConnection::write_some() {
  writing_ = false;
  while (!to_send_.empty()) {
    const ssize_t sent = send(fd_.native_handle(), to_send_.data(), to_send_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      writing_ = true;
      watch_time();
      fd_.async_wait(Descriptor::wait_write, [self = shared_from_this()](auto failed) {
        if (!failed) self->write_some();
      });
      return;
    }
    if (sent < 0) return end();
    to_send_.erase(0, static_cast<size_t>(sent));
    watch_time();
  }
  if (ending_) end();
}

void ControlConnection::watch_time() {
  if (!fd_.is_open() || (working_ && to_send_.empty())) return;
  deadline_.expires_after(kPatience);
  deadline_.async_wait([self = shared_from_this()](auto failed) {
    if (!failed) self->end();
  });
}

void ControlConnection::end() {
  gone_->store(true);
  deadline_.cancel();
  boost::system::error_code ignored;
  if (fd_.is_open()) fd_.close(ignored);
}

}  // namespace brevis::fs
