// SPDX-License-Identifier: Apache-2.0
//
// The payload that alias and rans share (docs/format-codecs.md, "Lanes"): L states of 32 bits, then 16-bit words in the
// order in which decoding takes them. Symbol i belongs to lane i mod L.
//
// Errors:  what a payload lacks or has too much gives corrupt.
// Threads: values. Owns: nothing of the payload, which must outlive the reader.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "bits/kernels.h"
#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis::codec {

constexpr uint32_t kLowestState = 1u << 16;  // states rest in [2^16, 2^32); encoding starts and decoding ends here

// A state costs about three bytes beyond the entropy, so short frames get fewer: at most 3 in 1,000 symbols' bits go
// to states, and far less in frames of the usual size.
constexpr unsigned lanes_for(size_t count) { return count >= 65536 ? 64 : count >= 16384 ? 16 : count >= 4096 ? 4 : 1; }

class LaneReader {
 public:
  // Requires: count > 0.
  Status open(ByteSpan payload, size_t count) {
    const unsigned lanes = lanes_for(count);
    if (payload.size() < 4 * lanes || payload.size() % 2 != 0)
      return corrupt(std::to_string(payload.size()) + " bytes cannot hold " + std::to_string(lanes) +
                     " states and 16-bit words");
    std::memcpy(states_.data(), payload.data(), 4 * lanes);
    for (unsigned lane = 0; lane < lanes; ++lane)
      if (states_[lane] < kLowestState) return corrupt("state " + std::to_string(lane) + " is below 2^16");
    cursor_ = {lanes, states_.data(), payload.data() + 4 * lanes, payload.data() + payload.size()};
    end_ = cursor_.end;
    return {};
  }

  bits::RansCursor& cursor() { return cursor_; }
  const bits::RansCursor& cursor() const { return cursor_; }

  // Kernels stop when fewer words are left than 64 symbols may take, which may be long before the last symbol. From
  // then on this puts zeros behind the words, so that kernels go on; finish() sees whether they took any of those.
  void pad() {
    const size_t left = static_cast<size_t>(cursor_.end - cursor_.next);
    if (end_ != cursor_.end || left >= kMostTaken) return;
    if (left != 0) std::memcpy(tail_.data(), cursor_.next, left);
    std::memset(tail_.data() + left, 0, kMostTaken);
    cursor_.next = tail_.data();
    end_ = tail_.data() + left;
    cursor_.end = end_ + kMostTaken;
  }

  // Decodes symbols first .. count - 1, looking at every step whether a word is left, and makes the end check.
  // `take(i, state)` stores the word of the state's slot and moves the state on, short of the refill.
  // Requires: every symbol before `first` was decoded through cursor().
  template <class Take>
  Status finish(size_t first, size_t count, Take&& take) {
    if (cursor_.next > end_) return corrupt("words run out");
    for (size_t i = first; i < count; ++i) {
      uint32_t& state = states_[i % cursor_.lanes];
      take(i, state);
      if (state >= kLowestState) continue;
      if (cursor_.next == end_) return corrupt("words run out at symbol " + std::to_string(i));
      uint16_t word;
      std::memcpy(&word, cursor_.next, sizeof word);
      cursor_.next += sizeof word;
      state = state << 16 | word;
    }
    if (cursor_.next != end_) return corrupt(std::to_string((end_ - cursor_.next) / 2) + " words are left over");
    for (unsigned lane = 0; lane < cursor_.lanes; ++lane)
      if (states_[lane] != kLowestState) return corrupt("state " + std::to_string(lane) + " does not end at 2^16");
    return {};
  }

 private:
  static constexpr size_t kMostTaken = 2 * 64;  // bytes of the words that kernels look ahead for

  static Error corrupt(const std::string& why) { return make_error(Errc::corrupt, "rANS payload: " + why); }

  std::array<uint32_t, 64> states_;
  std::array<uint8_t, 2 * kMostTaken> tail_;  // after pad(): the last words and zeros
  bits::RansCursor cursor_{};
  const uint8_t* end_ = nullptr;  // of the words that are the payload's
};

// Appends a payload of `count` symbols, count > 0. encode(lanes, states, words_end) works as the kernels do; false when
// it gives nullptr, and nothing is appended then.
template <class Encode>
bool write_lanes(size_t count, ByteVector& out, Encode&& encode) {
  const unsigned lanes = lanes_for(count);
  std::array<uint32_t, 64> states;
  states.fill(kLowestState);
  const auto words = std::make_unique_for_overwrite<uint16_t[]>(count);
  uint16_t* const end = words.get() + count;
  const uint16_t* const begin = encode(lanes, states.data(), end);
  if (begin == nullptr) return false;
  const size_t at = out.size(), state_bytes = 4 * lanes, word_bytes = static_cast<size_t>(end - begin) * 2;
  out.resize(at + state_bytes + word_bytes);
  std::memcpy(out.data() + at, states.data(), state_bytes);
  if (word_bytes != 0) std::memcpy(out.data() + at + state_bytes, begin, word_bytes);
  return true;
}

// The encoder's constants of a symbol. Requires: 0 < frequency < 2^scale_bits.
inline bits::RansSymbol rans_symbol(uint32_t frequency, uint32_t start, unsigned scale_bits) {
  return {.reciprocal = ((uint64_t{1} << 63) - 1) / frequency + 1,
          .limit = frequency << (32 - scale_bits),
          .frequency = static_cast<uint16_t>(frequency),
          .start = static_cast<uint16_t>(start)};
}

}  // namespace brevis::codec
