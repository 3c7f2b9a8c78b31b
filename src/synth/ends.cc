// SPDX-License-Identifier: Apache-2.0
#include "synth/ends.h"

#include <algorithm>

#include "synth/candidates.h"

namespace brevis::synth {
namespace {

using dsl::Expr;
using dsl::OpId;

constexpr uint64_t kChunkBytes = uint64_t{1} << 17;
constexpr uint64_t kLeastBytes = 4096;  // that have to be the same; a region costs about a hundred
constexpr uint64_t kLeastOf = 256;      // of the stream

class Ends {
 public:
  explicit Ends(const Stream& stream) : stream_(stream), lane_(stream.width / 8) {}

  // How many words at the end (at the start) repeat those `period` before (after) them, the period itself included.
  Result<uint64_t> tail(uint64_t period) {
    uint64_t same = 0;
    for (const uint64_t pairs = stream_.words - period; same < pairs;) {
      const uint64_t n = std::min(chunk(same), pairs - same), first = pairs - same - n;
      BREVIS_ASSIGN(const ByteSpan differing, compared(first, period, n));
      const auto last = std::find(differing.rbegin(), differing.rend(), uint8_t{1});
      same += static_cast<uint64_t>(last - differing.rbegin());
      if (last != differing.rend()) break;
    }
    return same + period;
  }
  Result<uint64_t> head(uint64_t period) {
    uint64_t same = 0;
    for (const uint64_t pairs = stream_.words - period; same < pairs;) {
      const uint64_t n = std::min(chunk(same), pairs - same);
      BREVIS_ASSIGN(const ByteSpan differing, compared(same, period, n));
      const auto at = std::find(differing.begin(), differing.end(), uint8_t{1});
      same += static_cast<uint64_t>(at - differing.begin());
      if (at != differing.end()) break;
    }
    return same + period;
  }

 private:
  // Little at first: mostly that is all there is to see.
  uint64_t chunk(uint64_t same) const { return same == 0 ? 64 : std::max<uint64_t>(1, kChunkBytes / lane_); }

  // For each of n words from `first` on whether the one `period` after it is another.
  Result<ByteSpan> compared(uint64_t first, uint64_t period, uint64_t n) {
    BREVIS_ASSIGN(const bits::ConstWords a, stream_.at(first, n, a_));
    BREVIS_ASSIGN(const bits::ConstWords b, stream_.at(first + period, n, b_));
    differing_.resize(n);
    bits::visit_lane(stream_.width, [&]<class T>(T) {
      const T *left = a.as<T>().data(), *right = b.as<T>().data();
      for (size_t i = 0; i < n; ++i) differing_[i] = left[i] != right[i];
    });
    return ByteSpan(differing_);
  }

  const Stream& stream_;
  const uint64_t lane_;
  bits::OwnedWords a_, b_;
  ByteVector differing_;
};

Result<uint64_t> word_at(const Stream& stream, uint64_t at) {
  bits::OwnedWords buffer;
  BREVIS_ASSIGN(const bits::ConstWords word, stream.at(at, 1, buffer));
  return word.at(0);
}

// `words` of the stream at one of its ends, a period repeated.
Expr repeated(uint64_t words, uint64_t period, uint64_t word) {
  if (period == 1) return {OpId::constant, {word}, {}};
  return {OpId::repeat, {words / period}, {bare_literal()}};
}

}  // namespace

Result<std::optional<Expr>> cut_ends(const Stream& stream) {
  const uint64_t lane = stream.width / 8, bytes = stream.words * lane;
  if (bytes < 2 * kLeastBytes) return std::optional<Expr>{};
  uint64_t row = 1;
  for (size_t i = 1; i < stream.shape.size(); ++i) row *= stream.shape[i];
  Ends ends(stream);
  std::vector<uint64_t> periods{1};
  if (row > 1 && stream.words % row == 0 && stream.words >= 2 * row) periods.push_back(row);
  for (const uint64_t period : periods) {
    BREVIS_ASSIGN(uint64_t tail, ends.tail(period));
    if (tail == stream.words) return std::optional(repeated(tail, period, 0));
    BREVIS_ASSIGN(uint64_t head, ends.head(period));
    const auto use = [&](uint64_t& words) {
      words -= words % period;
      const uint64_t saved = (words - period) * lane;
      if (saved < std::max(kLeastBytes, bytes / kLeastOf)) words = 0;
    };
    use(tail);
    use(head);
    if (head + tail == 0) continue;
    BREVIS_ASSIGN(const uint64_t first, word_at(stream, 0));
    BREVIS_ASSIGN(const uint64_t last, word_at(stream, stream.words - 1));
    Expr out{OpId::concat, {}, {}};
    if (head != 0) {
      out.params.push_back(head);
      out.children.push_back(repeated(head, period, first));
    }
    if (head + tail < stream.words) {
      if (tail != 0) out.params.push_back(stream.words - head - tail);
      out.children.push_back(bare_literal());
    }
    if (tail != 0) out.children.push_back(repeated(tail, period, last));
    return std::optional(std::move(out));
  }
  return std::optional<Expr>{};
}

}  // namespace brevis::synth
