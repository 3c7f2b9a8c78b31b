// SPDX-License-Identifier: Apache-2.0
//
// The thread has the priority of all others: with less, a busy machine would let a reader wait for a frame that is half
// decoded, or for a lock that is held meanwhile. Instead it yields after every piece, which costs nothing where
// a processor is idle.
#include "serve/decode_ahead.h"

#include <algorithm>
#include <system_error>

#include "brevis/log.h"

namespace brevis::serve {
namespace {

constexpr uint64_t kPiece = uint64_t{512} << 10;  // a frame, mostly
constexpr size_t kMaxJobs = 64;

}  // namespace

void DecodeAhead::add(Job job) {
  const std::lock_guard lock(mutex_);
  if (stopping_ || jobs_.size() >= kMaxJobs) return;
  jobs_.push_back(std::move(job));
  try {
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& e) {
    jobs_.clear();
    stopping_ = true;
    log(LogLevel::warning, std::string("cannot start a thread for decoding ahead: ") + e.what());
  }
  wake_.notify_one();
}

void DecodeAhead::stop() {
  std::deque<Job> given_up;  // before the lock: what they hold dies after it
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    given_up.swap(jobs_);
    wake_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

// Waits for the next piece; false at the end.
bool DecodeAhead::next(Job& piece) {
  std::unique_lock lock(mutex_);
  wake_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
  if (stopping_) return false;
  Job& first = jobs_.front();
  const uint64_t end = std::min(first.range.end(), (first.range.offset / kPiece + 1) * kPiece);
  const Range rest{end, first.range.end() - end};
  if (rest.length == 0) {
    piece = std::move(first);
    jobs_.pop_front();
  } else {
    piece = first;
    first.range = rest;
  }
  piece.range.length = end - piece.range.offset;
  return true;
}

void DecodeAhead::run() {
  for (Job piece; next(piece); piece = {}) {
    const uint64_t position = piece.advice.position ? piece.advice.position->load(std::memory_order_relaxed) : 0;
    if (piece.open.expired() || piece.range.end() <= position) continue;
    try {
      decode_(piece);
    } catch (const std::exception& e) {
      log(LogLevel::error, std::string("internal fault while decoding ahead: ") + e.what());
    }
    std::this_thread::yield();
  }
}

}  // namespace brevis::serve
