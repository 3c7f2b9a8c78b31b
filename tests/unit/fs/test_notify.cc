// SPDX-License-Identifier: Apache-2.0
#include "notify.h"

#include <doctest/doctest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "support/temp_dir.h"

using namespace brevis::fs;

namespace {

// Binds a datagram socket as a service manager does; `path` may start with @.
int manager_at(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  REQUIRE(bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0);
  return fd;
}

std::string received(int fd) {
  char text[200];
  const ssize_t n = recv(fd, text, sizeof text, MSG_DONTWAIT);
  return n < 0 ? "nothing" : std::string(text, static_cast<size_t>(n));
}

}  // namespace

TEST_CASE("S08: the service manager is told through its socket, by path or abstract name") {
  brevis::test::TempDir dir;
  for (const std::string& path : {dir / "notify", "@brevis-test-" + std::to_string(getpid())}) {
    const int fd = manager_at(path);
    setenv("NOTIFY_SOCKET", path.c_str(), 1);
    notify_manager("READY=1");
    CHECK(received(fd) == "READY=1");
    CHECK(received(fd) == "nothing");
    close(fd);
    notify_manager("nobody listens");  // and nobody minds
  }
  for (const std::string& odd : {std::string(), std::string("relative"), std::string("/") + std::string(200, 'x')}) {
    setenv("NOTIFY_SOCKET", odd.c_str(), 1);
    notify_manager("READY=1");
  }
  unsetenv("NOTIFY_SOCKET");
  notify_manager("READY=1");
}

TEST_CASE("the watchdog is fed twice per limit, and only when it watches us") {
  unsetenv("WATCHDOG_USEC");
  CHECK(watchdog_interval().count() == 0);
  setenv("WATCHDOG_USEC", "60000000", 1);
  CHECK(watchdog_interval().count() == 30000);
  setenv("WATCHDOG_PID", std::to_string(getpid()).c_str(), 1);
  CHECK(watchdog_interval().count() == 30000);
  setenv("WATCHDOG_PID", "1", 1);
  CHECK(watchdog_interval().count() == 0);
  unsetenv("WATCHDOG_PID");
  unsetenv("WATCHDOG_USEC");
}
