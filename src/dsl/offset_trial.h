// SPDX-License-Identifier: Apache-2.0
//
// What the operators `offset` and `select` would do to the fields of a sample, for one set of axes after the other: the
// steps of an axis are fitted once, whatever sets it is in, and only the fields are looked at, in quarters of their
// unit (the field and two bits below it).
//
// Threads: a value, used by one thread. Owns: the sample's quarters. Errors: none. Determinism: integers only.
#pragma once

#include <map>
#include <utility>

#include "dsl/op.h"

namespace brevis::dsl {

class OffsetTrial {
 public:
  // How often each number of quarters occurs, in order.
  using Counts = std::vector<uint32_t>;

  // The field as in the operators' parameters, of at most 12 bits; axes by stride and count.
  OffsetTrial(unsigned shift, unsigned bits, std::span<const Window> windows,
              std::span<const std::pair<uint64_t, uint64_t>> axes);
  uint64_t words() const { return quarters_.size(); }
  // As they are.
  Counts plain() const;
  // As steps along some of the axes leave them.
  Counts moved(std::span<const std::pair<uint64_t, uint64_t>> axes);
  // The same by class of `select`, one after the other.
  std::vector<Counts> dealt(std::span<const std::pair<uint64_t, uint64_t>> axes);

 private:
  struct Place {
    uint64_t position, first, count;  // of a window: in the stream, and in the sample
  };
  const std::vector<int16_t>& steps_at(const std::pair<uint64_t, uint64_t>& axis);
  std::vector<int16_t> sums(std::span<const std::pair<uint64_t, uint64_t>> axes);

  const unsigned bits_;
  std::vector<Place> places_;
  std::vector<uint16_t> quarters_;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<int16_t>> steps_;   // by axis: of its places
  std::map<std::pair<uint64_t, uint64_t>, std::vector<int16_t>> spread_;  // by axis: of the sample's words
};

}  // namespace brevis::dsl
