// SPDX-License-Identifier: Apache-2.0
//
// The packing side of the operator `update`: where its classes begin, so that steps of one class are most alike. It
// needs the base beside the steps, which the operator's own fitter does not see.
//
// Threads: one at a time. Owns: its counts, 2 KiB for every field value that occurs. Determinism: integers only; parts
// may be added up in any order.
#pragma once

#include <array>
#include <map>
#include <optional>

#include "bits/words.h"
#include "dsl/program.h"

namespace brevis::dsl {

class UpdateFitter {
 public:
  // The field of the base's words that says the class, as the operator's parameters give it.
  UpdateFitter(unsigned shift, unsigned bits) : shift_(shift), bits_(bits) {}
  // Steps, folded where the operator folds them, and as many words of the base.
  void add(bits::ConstWords steps, bits::ConstWords base);
  void add(const UpdateFitter& other);

  struct Fit {
    ByteVector stored;    // the slot's bytes
    uint64_t saved_bits;  // what order-0 codes of the classes save over one for all, tables left out
  };
  // nullopt: too few field values for four classes.
  std::optional<Fit> finish() const;

 private:
  // Steps by size: small ones as they are, others by the place of their first digit and the two after it.
  static constexpr size_t kSizes = 256;
  using Sizes = std::array<uint64_t, kSizes>;
  struct Row {
    uint64_t field;  // the lowest
    Sizes sizes;
  };
  std::vector<Row> merged_rows() const;

  unsigned shift_, bits_;
  std::map<uint64_t, Sizes> rows_;
};

// The slot's bytes for classes that begin at these fields, strictly ascending.
ByteVector stored_classes(const std::array<uint64_t, 3>& begins);

}  // namespace brevis::dsl
