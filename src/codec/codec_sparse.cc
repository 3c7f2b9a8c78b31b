// SPDX-License-Identifier: Apache-2.0
//
// sparse: one word almost always, and a list of the others. For streams that an entropy coder would still give a
// noticeable part of a bit a word, such as masks, and exceptions of streams that are constant but for a few words.
//
// The distances between the others are close to geometric, for which Rice codes (unary above k bits, then the k bits)
// come within a few hundredths of a bit of the best.
#include <algorithm>
#include <bit>
#include <string>

#include "base/coding.h"
#include "bits/bit_io.h"
#include "bits/kernels.h"
#include "codec/codec.h"

namespace brevis::codec {
namespace {

constexpr unsigned kMaxRice = 40;

bool accepts(unsigned width) { return width >= 1 && width <= 64; }

void fill(bits::Words out, uint64_t word) {
  bits::visit_lane(out.width, [&]<class T>(T) {
    const auto words = out.as<T>();
    std::fill(words.begin(), words.end(), static_cast<T>(word));
  });
}

Status decode(const Table*, ByteSpan payload, bits::Words out) {
  auto corrupt = [](const std::string& why) { return make_error(Errc::corrupt, "sparse payload: " + why); };
  if (out.count == 0) return payload.empty() ? Status{} : corrupt("bytes but no words");
  ByteReader head(payload);
  BREVIS_ASSIGN(const uint64_t usual, head.varint_up_to(bits::low_mask(out.width), "sparse payload: the usual word"));
  BREVIS_ASSIGN(const uint64_t others, head.varint_up_to(out.count, "sparse payload: the number of other words"));
  fill(out, usual);
  if (others == 0) return head.at_end() ? Status{} : corrupt("bytes are left over");
  BREVIS_ASSIGN(const uint64_t rice, head.varint_up_to(kMaxRice, "sparse payload: the Rice parameter"));
  BREVIS_ASSIGN(const uint64_t b, head.varint_up_to(out.width, "sparse payload: the bits of other words"));
  bits::BitReader reader(payload.subspan(head.position()));
  size_t at = 0;
  for (uint64_t i = 0; i < others; ++i) {
    const uint64_t left = out.count - at;  // words that gap and other may take
    const uint64_t high = reader.get_unary(left >> rice);
    const uint64_t gap = high << rice | reader.get(static_cast<unsigned>(rice));
    const uint64_t word = reader.get(static_cast<unsigned>(b));
    if (!reader.ok()) return corrupt("it ends, or leaves the stream, at other word " + std::to_string(i));
    if (gap >= left) return corrupt("other word " + std::to_string(i) + " is beyond the stream");
    if (word == usual) return corrupt("other word " + std::to_string(i) + " is the usual one");
    at += gap;
    out.set(at++, word);
  }
  if (!reader.finished()) return corrupt("it does not end with its last word");
  return {};
}

// The word that more than half of the stream is made of, if there is one; otherwise some word of it.
uint64_t majority(bits::ConstWords in) {
  return bits::visit_lane(in.width, [&]<class T>(T) {
    T candidate = 0;
    size_t lead = 0;
    for (const T word : in.as<T>()) {
      if (lead == 0) candidate = word;
      lead = word == candidate ? lead + 1 : lead - 1;
    }
    return uint64_t{candidate};
  });
}

// The Rice parameter that takes fewest bits for these gaps.
unsigned best_rice(const std::vector<uint64_t>& gaps) {
  unsigned best = 0;
  uint64_t least = UINT64_MAX;
  for (unsigned k = 0; k <= kMaxRice; ++k) {
    uint64_t bits = gaps.size() * (k + 1);
    for (const uint64_t gap : gaps) bits += gap >> k;
    if (bits < least) least = bits, best = k;
  }
  return best;
}

Status encode(const Table*, bits::ConstWords in, ByteVector& out) {
  if (in.count == 0) return {};
  const uint64_t usual = majority(in);
  std::vector<uint64_t> gaps, others;
  uint64_t any = 0;
  bits::visit_lane(in.width, [&]<class T>(T) {
    const auto words = in.as<T>();
    size_t next = 0;
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == usual) continue;
      gaps.push_back(i - next);
      others.push_back(words[i]);
      any |= words[i];
      next = i + 1;
    }
  });
  ByteWriter head(out);
  head.varint(usual);
  head.varint(others.size());
  if (others.empty()) return {};
  const unsigned rice = best_rice(gaps), b = static_cast<unsigned>(std::bit_width(any));
  head.varint(rice);
  head.varint(b);
  bits::BitWriter writer(out);
  for (size_t i = 0; i < gaps.size(); ++i) {
    writer.put_unary(gaps[i] >> rice);
    writer.put(gaps[i] & bits::low_mask(rice), rice);
    writer.put(others[i], b);
  }
  writer.finish();
  return {};
}

// With others strewn at random, a gap is at least n with probability (usual / total)^n, so that the best Rice code
// takes the least of k + 1 + q / (1 - q) bits, where q = (usual / total)^(2^k).
uint64_t estimate(const Table*, const Histogram& histogram) {
  uint64_t usual = 0, usual_word = 0;
  for (const auto& [word, count] : histogram.counts)
    if (count > usual) usual = count, usual_word = word;
  const uint64_t total = histogram.total(), others = total - usual;
  if (others == 0) return 0;
  uint64_t any = 0;
  for (const auto& [word, count] : histogram.counts)
    if (word != usual_word) any |= word;
  constexpr uint64_t kOne = uint64_t{1} << 31;
  const int shift = std::max(0, static_cast<int>(std::bit_width(total)) - 32);
  uint64_t q = std::min(((usual >> shift) << 31) / (total >> shift), kOne - 1), gap = UINT64_MAX;
  for (unsigned k = 0; k <= kMaxRice; ++k, q = q * q / kOne) gap = std::min(gap, 256 * (k + 1) + 256 * q / (kOne - q));
  return others * (gap + 256 * static_cast<uint64_t>(std::bit_width(any)));
}

}  // namespace

const CodecSpec sparse_codec = {.id = CodecId::sparse,
                                .name = "sparse",
                                .since = 1,
                                .needs_table = false,
                                .accepts = accepts,
                                .load = no_table_load,
                                .decode = decode,
                                .train = no_table_train,
                                .encode = encode,
                                .estimate = estimate};

}  // namespace brevis::codec
