// SPDX-License-Identifier: Apache-2.0
#include "dsl/update_fit.h"

#include <algorithm>

#include "base/coding.h"
#include "bits/log2.h"
#include "dsl/ops/deal.h"

namespace brevis::dsl {
namespace {

constexpr uint64_t kRowOf = 256;  // rows of fewer words than a part of so many join the next

size_t size_of(uint64_t step) {
  const unsigned n = static_cast<unsigned>(std::bit_width(step));
  return n <= 3 ? step : 8 + (n - 4) * 4 + (step >> (n - 3) & 3);
}

}  // namespace

void UpdateFitter::add(bits::ConstWords steps, bits::ConstWords base) {
  std::vector<Sizes*> row_of(size_t{1} << bits_);
  const uint64_t mask = bits::low_mask(bits_);
  bits::visit_lane(steps.width, [&]<class T>(T) {
    const std::span<const T> from = base.as<T>(), words = steps.as<T>();
    for (size_t i = 0; i < words.size(); ++i) {
      const uint64_t field = uint64_t{from[i]} >> shift_ & mask;
      Sizes*& row = row_of[field];
      if (row == nullptr) row = &rows_[field];
      ++(*row)[size_of(words[i])];
    }
  });
}

void UpdateFitter::add(const UpdateFitter& other) {
  for (const auto& [field, sizes] : other.rows_) {
    Sizes& row = rows_[field];
    for (size_t i = 0; i < kSizes; ++i) row[i] += sizes[i];
  }
}

std::vector<UpdateFitter::Row> UpdateFitter::merged_rows() const {
  uint64_t all = 0;
  const auto count_of = [](const Sizes& sizes) {
    uint64_t count = 0;
    for (const uint64_t one : sizes) count += one;
    return count;
  };
  for (const auto& [field, sizes] : rows_) all += count_of(sizes);
  std::vector<Row> rows;
  uint64_t last = UINT64_MAX;  // words of the last row
  for (const auto& [field, sizes] : rows_) {
    if (last >= all / kRowOf) {
      rows.push_back({field, sizes});
      last = count_of(sizes);
      continue;
    }
    for (size_t i = 0; i < kSizes; ++i) rows.back().sizes[i] += sizes[i];
    last += count_of(sizes);
  }
  return rows;
}

std::optional<UpdateFitter::Fit> UpdateFitter::finish() const {
  const std::vector<Row> rows = merged_rows();
  if (rows.size() < kHands) return std::nullopt;
  // least[c][j]: of the rows below j in c + 1 classes; first[c][j]: where the last of these begins.
  const size_t n = rows.size();
  std::array<std::vector<uint64_t>, kHands> least;
  std::array<std::vector<size_t>, kHands> first;
  for (size_t c = 0; c < kHands; ++c) {
    least[c].assign(n + 1, UINT64_MAX);
    first[c].assign(n + 1, 0);
  }
  for (size_t i = 0; i < n; ++i) {
    Sizes sum{};
    for (size_t j = i + 1; j <= n; ++j) {
      for (size_t k = 0; k < kSizes; ++k) sum[k] += rows[j - 1].sizes[k];
      const uint64_t bits = bits::entropy_of(sum);
      if (i == 0) least[0][j] = bits;
      for (size_t c = 1; c < kHands; ++c) {
        if (least[c - 1][i] == UINT64_MAX || i == 0 || least[c - 1][i] + bits >= least[c][j]) continue;
        least[c][j] = least[c - 1][i] + bits;
        first[c][j] = i;
      }
    }
  }
  std::array<uint64_t, kDealCounts> begins{};
  size_t end = n;
  for (size_t c = kHands - 1; c > 0; --c) {
    end = first[c][end];
    begins[c - 1] = rows[end].field;
  }
  const uint64_t dealt = least[kHands - 1][n], plain = least[0][n];
  return Fit{stored_classes(begins), plain > dealt ? (plain - dealt) >> bits::kLog2Bits : 0};
}

ByteVector stored_classes(const std::array<uint64_t, 3>& begins) {
  ByteVector out;
  ByteWriter writer(out);
  uint64_t next = 0;
  for (const uint64_t begin : begins) {
    writer.varint(begin - next);
    next = begin + 1;
  }
  return out;
}

}  // namespace brevis::dsl
