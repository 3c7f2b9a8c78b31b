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

std::unique_ptr<Fitter> fit_offset(const Node& node);
void propose_offsets(const Target& target, std::vector<Proposal>& out);

}  // namespace brevis::dsl
