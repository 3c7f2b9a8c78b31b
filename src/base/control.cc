// SPDX-License-Identifier: Apache-2.0
#include "brevis/control.h"

#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/io.h"

namespace brevis {
namespace {

constexpr int kLookEveryMs = 200;  // for `cancelled`

std::string parent_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == 0 || slash == path.npos ? "/" : path.substr(0, slash);
}

Result<std::string> attribute_of(const std::string& path) {
  std::array<char, sizeof(sockaddr_un::sun_path)> value;
  const ssize_t got = ::getxattr(path.c_str(), kControlAttribute, value.data(), value.size());
  if (got < 0) return Error::from_errno(errno, "asking '" + path + "' for its control socket");
  return std::string(value.data(), static_cast<size_t>(got));
}

Error daemon_died(const std::string& path) {
  return make_error(Errc::unavailable, "'" + path + "': the daemon of this mount has died; start it again");
}

struct Found {
  std::string socket, root;
};

Result<Found> find_socket(const std::string& place) {
  char* const resolved = ::realpath(place.c_str(), nullptr);
  if (!resolved) {
    if (errno == ENOTCONN || errno == ECONNABORTED) return daemon_died(place);
    return Error::from_errno(errno, "'" + place + "'");
  }
  std::string path(resolved);
  ::free(resolved);
  struct stat st {};
  if (::stat(path.c_str(), &st) == 0 && S_ISSOCK(st.st_mode)) return Found{path, path};
  for (;; path = parent_of(path)) {
    auto socket = attribute_of(path);
    if (socket) return Found{std::move(*socket), path};
    const int number = socket.error().os_errno();
    if (number == ENOTCONN || number == ECONNABORTED) return daemon_died(path);
    if (number != ENODATA && number != ENOTSUP && number != ENOENT) return std::move(socket).error();
    if (path == "/") break;
  }
  return make_error(
      Errc::not_found,
      "'" + place + "' is not in a mount of brevis-mount that has a control socket (brevis-mount --control)");
}

Error connect_error(int number, const std::string& path) {
  if (number == ECONNREFUSED || number == ENOENT)
    return make_error(Errc::unavailable, "nobody answers at the control socket '" + path + "'");
  if (number == EACCES || number == EPERM)
    return make_error(Errc::permission,
                      "the control socket '" + path + "' is open to the user who mounted and to root only");
  return Error::from_errno(number, "connecting to the control socket '" + path + "'");
}

}  // namespace

Result<ControlClient> ControlClient::connect(const std::string& place, std::function<bool()> cancelled) {
  BREVIS_ASSIGN(Found found, find_socket(place));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (found.socket.empty() || found.socket.size() >= sizeof address.sun_path)
    return make_error(Errc::invalid_argument, "'" + found.socket + "' cannot be a socket's path: it is too long");
  std::memcpy(address.sun_path, found.socket.data(), found.socket.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Error::from_errno(errno, "making a socket");
  ControlClient client(fd, std::move(found.root), std::move(cancelled));
  if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return connect_error(errno, found.socket);
  return client;
}

ControlClient::ControlClient(ControlClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      place_(std::move(other.place_)),
      received_(std::move(other.received_)),
      cancelled_(std::move(other.cancelled_)) {}

ControlClient::~ControlClient() {
  if (fd_ >= 0) ::close(fd_);
}

Status ControlClient::wait(short events) const {
  for (;;) {
    if (cancelled_ && cancelled_()) return make_error(Errc::cancelled, "stopped on request");
    pollfd poll = {fd_, events, 0};
    const int got = ::poll(&poll, 1, kLookEveryMs);
    if (got > 0) return {};
    if (got < 0 && errno != EINTR) return Error::from_errno(errno, "waiting for the daemon");
  }
}

Status ControlClient::send(const std::string& line, const std::string& file) {
  if (file.empty()) return send_line(line, -1);
  BREVIS_ASSIGN(const File opened, File::open(file));
  return send_line(line, opened.fd());
}

Status ControlClient::send_line(const std::string& line, int fd) {
  const std::string text = line + "\n";
  if (text.size() > kMaxControlRequest)
    return make_error(Errc::invalid_argument, "a request to the daemon is longer than 64 KiB");
  size_t done = 0;
  while (done < text.size()) {
    BREVIS_TRY(wait(POLLOUT));
    iovec part = {const_cast<char*>(text.data()) + done, text.size() - done};
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
    if (fd >= 0 && done == 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* const head = CMSG_FIRSTHDR(&message);
      head->cmsg_level = SOL_SOCKET;
      head->cmsg_type = SCM_RIGHTS;
      head->cmsg_len = CMSG_LEN(sizeof fd);
      std::memcpy(CMSG_DATA(head), &fd, sizeof fd);
    }
    const ssize_t sent = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno == EPIPE) return {};  // what it said before it closed tells why
    if (sent < 0) return Error::from_errno(errno, "asking the daemon");
    done += static_cast<size_t>(sent);
  }
  return {};
}

Result<std::string> ControlClient::receive() {
  for (;;) {
    if (const size_t end = received_.find('\n'); end != received_.npos) {
      std::string line = received_.substr(0, end);
      received_.erase(0, end + 1);
      return line;
    }
    if (received_.size() >= kMaxControlReply)
      return make_error(Errc::corrupt, "the answer at the control socket is no answer of brevis-mount");
    BREVIS_TRY(wait(POLLIN));
    std::array<char, 16384> buffer;
    const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != ECONNRESET) return Error::from_errno(errno, "reading the daemon's answer");
    if (got <= 0) return make_error(Errc::unavailable, "the daemon ended the conversation without an answer");
    received_.append(buffer.data(), static_cast<size_t>(got));
  }
}

}  // namespace brevis
