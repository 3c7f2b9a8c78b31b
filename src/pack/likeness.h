// SPDX-License-Identifier: Apache-2.0
//
// Tensors that are like each other, whatever their names: a sketch is a hundred words of a tensor from places that its
// length alone decides. Two sketches resemble each other when words of the same place are much nearer to each other
// than words of different places are. It is a guess; whoever packs finds out what it is worth.
//
// Many tensors of one shape are not compared one by one: a few neighbouring words, roughly or exactly, make a key, and
// those that share most keys are looked at.
//
// Errors:  those of reading. Threads: a Likeness is used by one thread at a time. Owns: copies of the words looked at,
//          of a bounded number of tensors. Determinism: integers only; what was asked before never changes an answer.
#pragma once

#include <functional>
#include <map>

#include "archive/manifest.h"
#include "bits/words.h"
#include "brevis/model.h"

namespace brevis::pack {

class Sketch {
 public:
  using Read = std::function<Status(uint64_t offset, MutByteSpan out)>;
  static Result<Sketch> take(Dtype dtype, uint64_t bytes, const Read& read);

  // Tells something: enough words, not all of them equal.
  bool is_telling() const;
  // Of the same dtype and number of words: bits of all differences in the order of numbers.
  uint64_t distance(const Sketch& other) const { return distance(other, 0); }
  bool resembles(const Sketch& other) const;
  // What sketches that resemble each other have many of in common.
  std::vector<uint32_t> keys() const;

 private:
  // Word i against the other's word i + shift.
  uint64_t distance(const Sketch& other, size_t shift) const;
  uint64_t place_at(size_t i) const;  // of the word among all words of its dtype

  Dtype dtype_ = Dtype::unknown;
  bits::OwnedWords words_;
};

class Likeness {
 public:
  using ReadBase = std::function<Status(const archive::BaseSpan& span, uint64_t offset, MutByteSpan out)>;
  explicit Likeness(ReadBase read) : read_(std::move(read)) {}

  // A tensor that others may be like.
  void add(const TensorInfo& tensor, const archive::BaseSpan& span);
  // The tensor added that the one which `read` gives is most like, nullopt for none. `named`: those of the same name,
  // dtype and shape. One of them that resembles it is taken, the nearest first; then one of another name; and if none
  // does, the first of `named` all the same.
  Result<std::optional<archive::BaseSpan>> find(const TensorInfo& tensor, const Sketch::Read& read,
                                                const std::vector<archive::BaseSpan>& named);

 private:
  struct Group {
    std::vector<archive::BaseSpan> spans;
    std::vector<Sketch> sketches;                     // of the first so many
    std::vector<std::pair<uint32_t, uint32_t>> keys;  // and index of the span; sorted
    bool is_sketched = false;
  };
  Status sketch_all(Dtype dtype, Group& group);
  static std::vector<uint32_t> candidates(const Group& group, const Sketch& sketch);
  Result<std::optional<archive::BaseSpan>> nearest_named(Dtype dtype, const Sketch& sketch,
                                                         const std::vector<archive::BaseSpan>& named) const;
  Result<std::optional<archive::BaseSpan>> nearest(Dtype dtype, const Sketch& sketch, Group& group);

  const ReadBase read_;
  std::map<std::tuple<Dtype, std::vector<uint64_t>, uint64_t>, Group> groups_;  // by dtype, shape and bytes
  size_t sketched_ = 0;
};

}  // namespace brevis::pack
