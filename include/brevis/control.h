// SPDX-License-Identifier: Apache-2.0
//
// The client's side of a daemon's control socket: finding it, and one line of JSON each way (docs/control.md). What the
// lines say is between the programs; this only carries them, with a descriptor beside one where a file is handed over.
//
// Errors:  not_found (no mount of brevis-mount, or one without a control socket), unavailable (its daemon does not
//          answer), permission (it answers its own user and root only), cancelled, io, corrupt (no protocol of ours).
// Threads: one at a time. Owns: the connection.
#pragma once

#include <functional>
#include <string>

#include "brevis/error.h"

namespace brevis {

// The extended attribute of a mount's root that names the socket.
constexpr const char* kControlAttribute = "user.brevis.control";
constexpr size_t kMaxControlRequest = size_t{64} << 10;  // bytes of a line, the newline included
constexpr size_t kMaxControlReply = size_t{16} << 20;

class ControlClient {
 public:
  // `place`: the mount, anything in it, or the socket itself. `cancelled` is asked while waiting; it may be empty.
  static Result<ControlClient> connect(const std::string& place, std::function<bool()> cancelled);
  ControlClient(ControlClient&& other) noexcept;
  ControlClient& operator=(ControlClient&&) = delete;
  ~ControlClient();

  // One request, without a newline, with the open file `file` beside it when one is named.
  Status send(const std::string& line, const std::string& file = {});
  // The next line of the daemon's, without its newline.
  Result<std::string> receive();

  // The mount's root, or the socket when that was named.
  const std::string& place() const { return place_; }

 private:
  ControlClient(int fd, std::string place, std::function<bool()> cancelled)
      : fd_(fd), place_(std::move(place)), cancelled_(std::move(cancelled)) {}
  Status send_line(const std::string& line, int fd);
  Status wait(short events) const;

  int fd_;
  std::string place_, received_;
  std::function<bool()> cancelled_;
};

}  // namespace brevis
