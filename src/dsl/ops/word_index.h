// SPDX-License-Identifier: Apache-2.0
//
// From a word to its place in a word list, for the packing side of rank and palette: a direct table for words of up to
// 16 bits, an open hash for wider ones. Built per frame, which is cheap against the words of a frame.
//
// Threads: values. Owns: its tables.
#pragma once

#include "dsl/op.h"

namespace brevis::dsl {

class WordIndex {
 public:
  // `missing`: what find() gives for words that are not in the list.
  WordIndex(std::span<const uint64_t> words, unsigned width, uint32_t missing) : missing_(missing) {
    if (width <= 16) {
      direct_.assign(size_t{1} << width, missing);
      for (size_t i = 0; i < words.size(); ++i) direct_[words[i]] = static_cast<uint32_t>(i);
      return;
    }
    const unsigned bits = static_cast<unsigned>(std::bit_width(words.size())) + 2;
    shift_ = 64 - bits;
    keys_.resize(size_t{1} << bits);
    places_.assign(size_t{1} << bits, missing);
    for (size_t i = 0; i < words.size(); ++i) {
      size_t at = slot(words[i]);
      while (places_[at] != missing_) at = (at + 1) & (keys_.size() - 1);
      keys_[at] = words[i];
      places_[at] = static_cast<uint32_t>(i);
    }
  }

  // places[i] = place of words[i]; gives the number of missing ones.
  template <class T, class Place>
  size_t find_all(std::span<const T> words, Place* places) const {
    size_t missing = 0;
    if (!direct_.empty()) {
      for (size_t i = 0; i < words.size(); ++i) {
        const uint32_t place = direct_[words[i]];
        places[i] = static_cast<Place>(place);
        missing += place == missing_;
      }
      return missing;
    }
    for (size_t i = 0; i < words.size(); ++i) {
      const uint32_t place = find(words[i]);
      places[i] = static_cast<Place>(place);
      missing += place == missing_;
    }
    return missing;
  }

 private:
  size_t slot(uint64_t word) const { return static_cast<size_t>(word * 0x9e3779b97f4a7c15u >> shift_); }
  uint32_t find(uint64_t word) const {
    for (size_t at = slot(word);; at = (at + 1) & (keys_.size() - 1))
      if (places_[at] == missing_ || keys_[at] == word) return places_[at];
  }

  uint32_t missing_;
  unsigned shift_ = 0;
  std::vector<uint32_t> direct_;
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> places_;
};

}  // namespace brevis::dsl
