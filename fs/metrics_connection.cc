// SPDX-License-Identifier: Apache-2.0
#include "metrics_connection.h"

#include <sys/socket.h>

#include <cerrno>

namespace brevis::fs {

namespace {

using Descriptor = boost::asio::posix::stream_descriptor;

constexpr std::chrono::seconds kPatience{10};  // for the whole conversation
constexpr size_t kMaxHead = 8192;

std::string answer(const char* status, const char* type, const std::string& body, bool with_body = true) {
  return std::string("HTTP/1.1 ") + status + "\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\nConnection: close\r\n\r\n" +
         (with_body ? body : std::string());
}

}  // namespace

std::string http_answer(std::string_view head, const std::function<std::string()>& body) {
  constexpr const char* kText = "text/plain; charset=utf-8";
  const std::string_view line = head.substr(0, head.find_first_of("\r\n"));
  const size_t first = line.find(' '), second = line.rfind(' ');
  if (first == line.npos || second == first || !line.substr(second + 1).starts_with("HTTP/1."))
    return answer("400 Bad Request", kText, "no HTTP\n");
  const std::string_view method = line.substr(0, first);
  std::string_view target = line.substr(first + 1, second - first - 1);
  target = target.substr(0, target.find('?'));
  if (method != "GET" && method != "HEAD") return answer("405 Method Not Allowed", kText, "only GET is understood\n");
  if (target != "/metrics" && target != "/") return answer("404 Not Found", kText, "the metrics are at /metrics\n");
  return answer("200 OK", "text/plain; version=0.0.4; charset=utf-8", body(), method == "GET");
}

MetricsConnection::MetricsConnection(boost::asio::io_context& loop, int fd, std::shared_ptr<int> count,
                                     const SideActions& actions)
    : fd_(loop, fd), deadline_(loop), count_(std::move(count)), actions_(actions) {}

void MetricsConnection::start() {
  deadline_.expires_after(kPatience);
  deadline_.async_wait([self = shared_from_this()](auto failed) {
    if (!failed) self->end();
  });
  await_bytes();
}

void MetricsConnection::await_bytes() {
  fd_.async_wait(Descriptor::wait_read, [self = shared_from_this()](auto failed) {
    if (!failed) self->on_bytes();
  });
}

void MetricsConnection::on_bytes() {
  for (;;) {
    char bytes[2048];
    const ssize_t got = recv(fd_.native_handle(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return await_bytes();
    if (got <= 0) return end();
    received_.append(bytes, static_cast<size_t>(got));
    if (received_.size() > kMaxHead) return end();
    if (received_.find("\r\n\r\n") == received_.npos && received_.find("\n\n") == received_.npos) continue;
    to_send_ = http_answer(received_, actions_.metrics);
    return write_some();
  }
}

void MetricsConnection::write_some() {
  while (sent_ < to_send_.size()) {
    const ssize_t sent =
        send(fd_.native_handle(), to_send_.data() + sent_, to_send_.size() - sent_, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EAGAIN) {
      fd_.async_wait(Descriptor::wait_write, [self = shared_from_this()](auto failed) {
        if (!failed) self->write_some();
      });
      return;
    }
    if (sent < 0) return end();
    sent_ += static_cast<size_t>(sent);
  }
  end();
}

void MetricsConnection::end() {
  deadline_.cancel();
  boost::system::error_code ignored;
  if (fd_.is_open()) fd_.close(ignored);
}

}  // namespace brevis::fs
