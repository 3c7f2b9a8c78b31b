// SPDX-License-Identifier: Apache-2.0
#include "notify.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace brevis::fs {

void notify_manager(const std::string& message) {
  const char* path = getenv("NOTIFY_SOCKET");
  sockaddr_un address = {};
  if (!path || (path[0] != '/' && path[0] != '@') || strlen(path) >= sizeof address.sun_path) return;
  address.sun_family = AF_UNIX;
  const size_t length = strlen(path);
  memcpy(address.sun_path, path, length);
  if (path[0] == '@') address.sun_path[0] = '\0';  // the abstract namespace
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  sendto(fd, message.data(), message.size(), MSG_NOSIGNAL | MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&address),
         static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length));
  close(fd);
}

std::chrono::milliseconds watchdog_interval() {
  const char* limit = getenv("WATCHDOG_USEC");
  const char* pid = getenv("WATCHDOG_PID");
  if (!limit || (pid && strtol(pid, nullptr, 10) != getpid())) return {};
  const unsigned long long us = strtoull(limit, nullptr, 10);
  return std::chrono::milliseconds(us / 2000);
}

}  // namespace brevis::fs
