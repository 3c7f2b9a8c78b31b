// SPDX-License-Identifier: Apache-2.0
//
// How every layer of Brevis reports failure: a kind that tells the caller what to do, a message that tells a person
// what happened, where, and what to do about it. Exceptions never cross a layer; `Result<T>` does.
//
// Errors:  none of these functions fail.
// Threads: values; no shared state.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <tl/expected.hpp>

namespace brevis {

// What a caller can do about a failure.
enum class Errc : uint8_t {
  corrupt,           // stored bytes contradict their checksum or the format: do not use them
  truncated,         // a file ends before its own header says
  unsupported,       // well formed, but of a version or feature this build does not know
  invalid_argument,  // the caller's (or user's) request makes no sense as put
  not_found,         // no such file, tensor or entry
  io,                // the operating system failed a call; `os_errno()` keeps its number
  no_space,          // a target is full
  busy,              // held by somebody else; may work later
  permission,        // not allowed for this user
  unavailable,       // a needed facility (such as /dev/fuse) is missing
  changed,           // the input changed while it was read
  cancelled,         // stopped on request
  internal,          // a fault of Brevis itself seen at a boundary
};

// The stable lower-case name of a kind, as written in logs and JSON.
std::string_view errc_name(Errc kind);

class [[nodiscard]] Error {
 public:
  Error(Errc kind, std::string message, int os_errno = 0)
      : kind_(kind), os_errno_(os_errno), message_(std::move(message)) {}

  // The failure of a system call: `what` says what was being done and to which file; the errno picks the kind
  // (ENOENT not_found, ENOSPC/EDQUOT no_space, EACCES/EPERM permission, otherwise io) and its text is appended.
  static Error from_errno(int os_errno, std::string_view what);

  Errc kind() const { return kind_; }
  // 0 when the failure did not come from the operating system.
  int os_errno() const { return os_errno_; }
  const std::string& message() const { return message_; }

  // The same failure seen from further out: "context: message".
  Error within(std::string_view context) &&;

  // The same failure, of making a target and not of filling it.
  Error creating() && {
    is_creating_ = true;
    return std::move(*this);
  }
  bool is_creating() const { return is_creating_; }

 private:
  Errc kind_;
  bool is_creating_ = false;
  int os_errno_;
  std::string message_;
};

// The one table from a failure to an errno, for replies to the kernel: corrupt, truncated, changed and internal are
// EIO; unsupported is EOPNOTSUPP; io keeps its own.
int to_errno(const Error& error);

// The one table from a failure to a process exit code (sysexits): 65 bad input, 66 no such input, 69 unavailable,
// 70 our fault, 74 I/O (no_space: 73 when a target could not even be created), 75 temporary, 77 permission, 2 usage.
int to_exit_code(const Error& error);

// A value or an Error. A class of its own, not an alias, so that a dropped result is a compiler warning.
template <class T>
class [[nodiscard]] Result : public tl::expected<T, Error> {
 public:
  using tl::expected<T, Error>::expected;
  Result(Error error) : tl::expected<T, Error>(tl::unexpected<Error>(std::move(error))) {}
};

using Status = Result<void>;

inline Error make_error(Errc kind, std::string message) { return Error(kind, std::move(message)); }

}  // namespace brevis

#define BREVIS_CONCAT_(a, b) a##b
#define BREVIS_CONCAT(a, b) BREVIS_CONCAT_(a, b)

// BREVIS_TRY(call());  leaves the function with the call's Error if it has one.
#define BREVIS_TRY(...) BREVIS_TRY_(BREVIS_CONCAT(brevis_status_, __COUNTER__), __VA_ARGS__)
#define BREVIS_TRY_(temporary, ...)                                                                       \
  do {                                                                                                    \
    if (auto temporary = (__VA_ARGS__); !temporary) return ::brevis::Error(std::move(temporary).error()); \
  } while (false)

// BREVIS_ASSIGN(auto value, call());  the same for a call that gives a value.
#define BREVIS_ASSIGN(target, ...) BREVIS_ASSIGN_(BREVIS_CONCAT(brevis_result_, __COUNTER__), target, __VA_ARGS__)
#define BREVIS_ASSIGN_(temporary, target, ...)                          \
  auto temporary = (__VA_ARGS__);                                       \
  if (!temporary) return ::brevis::Error(std::move(temporary).error()); \
  target = std::move(*temporary)
