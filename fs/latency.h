// SPDX-License-Identifier: Apache-2.0
//
// How long requests took, from the handler's start to the answer: a histogram for each kind.
//
// Errors:  none. Threads: any; what is read while others write may be a request apart. Owns: its numbers.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string_view>

namespace brevis::fs {

class Histogram {
 public:
  // Upper bounds in nanoseconds: 16 us, each four times the last, to 4 s; above is the last bucket.
  static constexpr size_t kBounds = 10;
  static constexpr int64_t bound_ns(size_t i) { return int64_t{16'000} << (2 * i); }

  void observe(std::chrono::nanoseconds took) {
    const int64_t ns = took.count() < 0 ? 0 : took.count();
    size_t i = 0;
    while (i < kBounds && ns > bound_ns(i)) ++i;
    buckets_[i].fetch_add(1, std::memory_order_relaxed);
    sum_ns_.fetch_add(static_cast<uint64_t>(ns), std::memory_order_relaxed);
  }

  uint64_t bucket(size_t i) const { return buckets_[i].load(std::memory_order_relaxed); }  // i up to kBounds
  uint64_t sum_ns() const { return sum_ns_.load(std::memory_order_relaxed); }
  uint64_t count() const {
    uint64_t sum = 0;
    for (size_t i = 0; i <= kBounds; ++i) sum += bucket(i);
    return sum;
  }
  // The upper bound of the bucket in which the request stands that `per_mille` of all do not exceed; 0 of none.
  int64_t at_most_ns(unsigned per_mille) const {
    const uint64_t all = count();
    uint64_t below = 0;
    for (size_t i = 0; i <= kBounds && all > 0; ++i) {
      below += bucket(i);
      if (below * 1000 >= all * per_mille) return bound_ns(i);
    }
    return 0;
  }

 private:
  std::array<std::atomic<uint64_t>, kBounds + 1> buckets_{};
  std::atomic<uint64_t> sum_ns_{0};
};

// The kinds that are told apart; the rest goes under the last name.
constexpr std::array<std::string_view, 8> kOperations = {"read",    "open",        "lookup",   "getattr",
                                                         "readdir", "readdirplus", "getxattr", "other"};

class Latencies {
 public:
  Histogram& of(std::string_view operation) {
    for (size_t i = 0; i + 1 < kOperations.size(); ++i)
      if (operation == kOperations[i]) return all_[i];
    return all_.back();
  }
  const Histogram& at(size_t i) const { return all_[i]; }

 private:
  std::array<Histogram, kOperations.size()> all_;
};

}  // namespace brevis::fs
