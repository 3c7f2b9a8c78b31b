// SPDX-License-Identifier: Apache-2.0
#include "listening.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace brevis::fs {

namespace {

constexpr int kBacklog = 16;

Result<sockaddr_un> unix_address(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof address.sun_path || path.find('\0') != path.npos)
    return make_error(Errc::invalid_argument, "a socket cannot be at '" + path + "': a path of at most " +
                                                  std::to_string(sizeof address.sun_path - 1) + " bytes can");
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

bool answered(const sockaddr_un& address) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 || errno == EAGAIN;
  close(fd);
  return connected;
}

// Whoever may write there could put a socket of his own in our place.
Status make_directory_of(const std::string& path) {
  const std::string directory = path.substr(0, path.rfind('/'));
  if (mkdir(directory.c_str(), geteuid() == 0 ? 0755 : 0700) != 0 && errno != EEXIST)
    return Error::from_errno(errno, "cannot make the directory " + directory + " for the control socket");
  struct stat st = {};
  if (lstat(directory.c_str(), &st) != 0) return Error::from_errno(errno, "cannot use " + directory);
  if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022) != 0)
    return make_error(Errc::permission, directory + " is not a directory that only this user can write to");
  return {};
}

// "host:port" apart, brackets of an IPv6 address taken off.
Result<std::pair<std::string, std::string>> split_address(const std::string& address) {
  const size_t colon = address.rfind(':');
  std::string host = colon == address.npos ? "" : address.substr(0, colon), port = address.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const bool is_port = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == port.npos &&
                       std::stoul(port) <= 65535;
  if (colon == address.npos || !is_port)
    return make_error(Errc::invalid_argument, "'" + address + "' is no address: HOST:PORT, :PORT or unix:PATH");
  return std::pair(host.empty() ? "127.0.0.1" : host, port);
}

std::string shown(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address.ss_family == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address);
    inet_ntop(AF_INET6, &six.sin6_addr, text, sizeof text);
    return "[" + std::string(text) + "]:" + std::to_string(ntohs(six.sin6_port));
  }
  const auto& four = reinterpret_cast<const sockaddr_in&>(address);
  inet_ntop(AF_INET, &four.sin_addr, text, sizeof text);
  return std::string(text) + ":" + std::to_string(ntohs(four.sin_port));
}

}  // namespace

Listening::Listening(Listening&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), address_(std::move(other.address_)), is_file_(other.is_file_) {}

Listening::~Listening() {
  if (fd_ < 0) return;
  // Only our own: another daemon may have taken the place after somebody removed the file.
  sockaddr_un bound = {};
  if (const auto address = unix_address(address_); is_file_ && address) {
    shutdown(fd_, SHUT_RDWR);
    close(fd_);
    bound = *address;
    if (!answered(bound)) unlink(address_.c_str());
    return;
  }
  close(fd_);
}

Result<Listening> Listening::at_path(const std::string& path, bool make_directory) {
  BREVIS_ASSIGN(const sockaddr_un address, unix_address(path));
  if (make_directory) BREVIS_TRY(make_directory_of(path));
  struct stat st = {};
  if (lstat(path.c_str(), &st) == 0) {
    if (!S_ISSOCK(st.st_mode))
      return make_error(Errc::busy, path + " is no socket and is left as it is: name another place");
    if (answered(address))
      return make_error(Errc::busy, "somebody answers at " + path + " already: name another place");
    unlink(path.c_str());
  }
  Listening self(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), path, true);
  if (self.fd_ < 0) return Error::from_errno(errno, "cannot make a socket");
  self.is_file_ = false;  // not ours to remove before it is made
  const mode_t mask = umask(0177);
  const int failed = bind(self.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 ? 0 : errno;
  umask(mask);
  if (failed == EADDRINUSE) return make_error(Errc::busy, "somebody was faster at " + path);
  if (failed != 0) return Error::from_errno(failed, "cannot make the socket " + path);
  self.is_file_ = true;
  if (listen(self.fd_, kBacklog) != 0) return Error::from_errno(errno, "cannot listen at " + path);
  return self;
}

Result<Listening> Listening::at_address(const std::string& address) {
  BREVIS_ASSIGN(const auto parts, split_address(address));
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (const int fault = getaddrinfo(parts.first.c_str(), parts.second.c_str(), &hints, &found); fault != 0)
    return make_error(Errc::invalid_argument, "cannot listen at " + address + ": " + gai_strerror(fault));
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(found, freeaddrinfo);
  Listening self(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), address, false);
  if (self.fd_ < 0) return Error::from_errno(errno, "cannot make a socket");
  const int on = 1;
  setsockopt(self.fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(self.fd_, found->ai_addr, found->ai_addrlen) != 0 || listen(self.fd_, kBacklog) != 0) {
    if (errno == EADDRINUSE) return make_error(Errc::busy, "somebody listens at " + address + " already");
    return Error::from_errno(errno, "cannot listen at " + address);
  }
  sockaddr_storage bound = {};
  socklen_t length = sizeof bound;
  if (getsockname(self.fd_, reinterpret_cast<sockaddr*>(&bound), &length) == 0) self.address_ = shown(bound);
  return self;
}

Result<std::string> default_control_path(const std::string& mountpoint, unsigned uid, const char* runtime_directory) {
  std::string directory;
  if (uid == 0)
    directory = "/run/brevis";
  else if (runtime_directory && runtime_directory[0] == '/')
    directory = std::string(runtime_directory) + "/brevis";
  else
    return make_error(Errc::not_found, "XDG_RUNTIME_DIR is not set");
  // A path as a name: slashes become dashes, and what else could be taken for them is written out, so that no two
  // mount points meet. Long ones end in a hash instead.
  std::string name;
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : mountpoint) {
    hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
    const bool plain = isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.';
    constexpr char kHex[] = "0123456789abcdef";
    if (plain)
      name += c;
    else if (c == '/')
      name += '-';
    else
      (name += '%').append({kHex[static_cast<uint8_t>(c) >> 4], kHex[c & 15]});
  }
  constexpr size_t kRoom = 40;
  if (name.size() > kRoom) {
    name = name.substr(name.size() - kRoom) + "~";
    for (int i = 0; i < 16; ++i) name += "0123456789abcdef"[hash >> (60 - 4 * i) & 15];
  }
  if (!name.empty() && name.front() == '-' && name.size() > 1) name.erase(0, 1);
  return directory + "/" + name + ".sock";
}

}  // namespace brevis::fs
