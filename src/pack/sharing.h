// SPDX-License-Identifier: Apache-2.0
//
// What the streams of a file tell those that come after them: mates, siblings and kin (docs/synthesis.md, Sharing).
//
// Errors: none. Threads: a value, used by the thread that chooses. Determinism: what is told depends on the streams
// before, in their order, and on nothing else.
#pragma once

#include <map>
#include <tuple>

#include "pack/records.h"
#include "synth/choose.h"

namespace brevis::pack {

class Sharing {
 public:
  // Adds to the options of a choice what like streams tell.
  void tell(const RecordPlan& plan, synth::ChooseOptions& options) const;
  void learn(const RecordPlan& plan, const synth::Choice& choice);

 private:
  struct Siblings {
    std::vector<synth::Sibling> found;  // the last one first, all of streams with rows of one length
    uint64_t row = 0;
    void add(const synth::Sibling& sibling, uint64_t of_row);
  };
  using Key = std::tuple<Dtype, std::string, unsigned>;  // dtype, role and log2 of the bytes
  using ShapeKey = std::tuple<Dtype, std::vector<uint64_t>>;
  using AxesKey = std::tuple<Dtype, std::string, size_t>;  // dtype, role and number of axes
  using KinKey = std::tuple<Key, size_t>;                  // and number of axes

  std::map<Key, synth::Mate> mates_;
  // What searches found.
  std::map<ShapeKey, Siblings> siblings_by_shape_;
  std::map<Key, Siblings> siblings_by_role_;
  std::map<KinKey, synth::Kin> kin_, counted_;
  std::map<AxesKey, unsigned> in_vain_;  // searches in a row
};

}  // namespace brevis::pack
