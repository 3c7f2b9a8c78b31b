// SPDX-License-Identifier: Apache-2.0
//
// Sockets that wait for callers: where they are by default, how an address is written, and that they are gone after us.
//
// Errors:  invalid_argument (no such address can be), busy (somebody else answers there), permission, io.
// Threads: start-up. Owns: the descriptor, and the socket's file until it is destroyed.
#pragma once

#include <string>

#include "brevis/error.h"

namespace brevis::fs {

class Listening {
 public:
  // A socket file of mode 0600. A file left by a dead daemon is replaced; `make_directory` makes its last directory.
  static Result<Listening> at_path(const std::string& path, bool make_directory);
  // "HOST:PORT", "[V6]:PORT" or ":PORT" (this machine only).
  static Result<Listening> at_address(const std::string& address);

  Listening(Listening&& other) noexcept;
  Listening& operator=(Listening&&) = delete;
  ~Listening();

  int fd() const { return fd_; }
  // The path, or HOST:PORT with the port that was given when 0 was asked for.
  const std::string& address() const { return address_; }

 private:
  Listening(int fd, std::string address, bool is_file) : fd_(fd), address_(std::move(address)), is_file_(is_file) {}
  int fd_;
  std::string address_;
  bool is_file_;
};

// The control socket of a mount when nothing else was said: /run/brevis/NAME.sock for root, below $XDG_RUNTIME_DIR for
// others. Errors: not_found without such a directory.
Result<std::string> default_control_path(const std::string& mountpoint, unsigned uid, const char* runtime_directory);

}  // namespace brevis::fs
