// SPDX-License-Identifier: Apache-2.0
//
// Work in a process of its own, for libraries that may crash or loop on damaged input: it ends there, and the caller
// is told.
//
// Errors:  corrupt when the work ended in a crash, took too long, or said more than the limit; what the work returned.
// Threads: forks; best before others run. The work may use what a child after a fork may: no locks of other threads;
//          and no files that were open, but the standard ones. A Servant: one at a time.
// Owns:    the child, which is gone on return (a Servant's: with it), and ends with the thread that made it.
#pragma once

#include <sys/types.h>

#include <functional>
#include <utility>

#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis {

// Runs work(tell) in a child, where tell(bytes) sends bytes to the parent; everything told, in order.
using Tell = std::function<bool(ByteSpan)>;
Result<ByteVector> run_apart(const std::function<bool(const Tell&)>& work, size_t limit_bytes, unsigned seconds);

// A process that answers questions until it is asked no more.
class Servant {
 public:
  using Answer = std::function<ByteVector(ByteSpan question)>;
  // Answer make(), in the child. What is wrong there, its answers have to say.
  static Result<Servant> start(const std::function<Answer()>& make);
  Servant(Servant&& other) noexcept
      : socket_(std::exchange(other.socket_, -1)), child_(std::exchange(other.child_, -1)) {}
  Servant& operator=(Servant&&) = delete;
  ~Servant();  // waits until the child has ended in peace, for a while

  // Errors: corrupt when the child has ended, or takes longer. From then on every question fails.
  Result<ByteVector> ask(ByteSpan question, unsigned seconds);

 private:
  Servant(int socket, pid_t child) : socket_(socket), child_(child) {}
  void end(bool in_peace);
  int socket_;
  pid_t child_;
};

}  // namespace brevis
