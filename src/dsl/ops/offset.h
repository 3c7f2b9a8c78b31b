// SPDX-License-Identifier: Apache-2.0
//
// What the two halves of the operator `offset` and the operator `select` share: parameters, and the steps, stored and
// spread out. Private to ops/.
//
// Threads: values. Owns: their vectors.
#pragma once

#include "bits/kernels.h"
#include "dsl/op.h"

namespace brevis::dsl {

constexpr size_t kMaxOffsetAxes = 4;
constexpr uint64_t kMaxOffsetSteps = uint64_t{1} << 18;   // of all axes together
constexpr uint64_t kMaxOffsetStride = uint64_t{1} << 44;  // so that stride * count has far fewer than 64 bits
constexpr unsigned kOffsetStepBits = 13;                  // zigzag: -4096 .. 4095, four of which fit 16 bits with ease

// Word i of the region's stream stands at place i / stride % count of an axis.
struct OffsetAxis {
  uint64_t stride, count;
};
std::vector<OffsetAxis> offset_axes(const Node& node);

using OffsetSteps = std::vector<std::vector<int16_t>>;  // by axis: a quarter step each
ByteVector store_offsets(const OffsetSteps& steps);

// The gate of the parameters.
Status expect_offset_params(const Node& node);
uint64_t offset_steps(const Node& node);  // how many the list has
bits::FieldMove offset_field(const Node& node, bool back);
// The gate of the stored steps, spread out for running.
Result<std::shared_ptr<const Blob>> load_offsets(const Node& node, ByteSpan stored);
// 2 + the sum of the steps, for consecutive words from `position` on. `offsets`: what load_offsets() gave.
void offset_sums(const Blob& offsets, uint64_t position, std::span<int16_t> out);

// Steps that bring the fields of all places of each axis to one mean. Axes are looked at one by one: what one gets does
// not depend on which others there are.
constexpr unsigned kMostFitBits = 12;  // wider fields are no exponents: they get no steps

class OffsetSums {
 public:
  explicit OffsetSums(std::vector<OffsetAxis> axes);
  ~OffsetSums();
  // Comes first: quarters (as the kernel of that name has them) of words from all over what is to be fitted. False
  // where all fields are zero.
  bool set_middle(std::span<const uint16_t> quarters);
  bool has_middle() const { return middle_ >= 0; }
  void add(uint64_t position, std::span<const uint16_t> quarters);
  OffsetSteps finish();

 private:
  struct Total {
    uint64_t words = 0, sum = 0;
    void add(uint32_t terms);
  };
  class Ring;
  static std::vector<int16_t> steps_of(const std::vector<Total>& totals);
  void flush(Ring& ring);

  const std::vector<OffsetAxis> axes_;
  std::vector<Ring> rings_;
  std::vector<size_t> ring_of_;  // by axis; past the end: summed up run by run
  std::vector<std::vector<Total>> totals_;
  int middle_ = -1;
};

std::unique_ptr<Fitter> fit_offset(const Node& node);
void propose_offsets(const Target& target, std::vector<Proposal>& out);

}  // namespace brevis::dsl
