// SPDX-License-Identifier: Apache-2.0
#include "pack/sharing.h"

#include <algorithm>
#include <bit>

namespace brevis::pack {
namespace {

constexpr size_t kMostSiblings = 3;  // programs that searches found, tried on like streams

bool has_like(const RecordPlan& plan) { return plan.kind == archive::SegmentKind::tensor && !plan.bundle; }
uint64_t row_of(const RecordPlan& plan) { return plan.shape.empty() ? 1 : plan.shape.back(); }
unsigned size_class(const RecordPlan& plan) { return static_cast<unsigned>(std::bit_width(plan.bytes())); }

}  // namespace

void Sharing::Siblings::add(const synth::Sibling& sibling, uint64_t of_row) {
  if (row != of_row) found.clear();
  row = of_row;
  std::erase_if(found, [&](const synth::Sibling& other) { return other.expr == sibling.expr; });
  found.insert(found.begin(), sibling);
  if (found.size() > kMostSiblings) found.pop_back();
}

void Sharing::tell(const RecordPlan& plan, synth::ChooseOptions& options) const {
  if (!has_like(plan)) return;
  const Key key{plan.dtype, plan.role, size_class(plan)};
  if (const auto mate = mates_.find(key); mate != mates_.end()) options.mate = mate->second;
  const auto by_shape = siblings_by_shape_.find({plan.dtype, plan.shape});
  const auto by_role = siblings_by_role_.find(key);
  const Siblings* like = by_shape != siblings_by_shape_.end() ? &by_shape->second
                         : by_role != siblings_by_role_.end() ? &by_role->second
                                                              : nullptr;
  if (like != nullptr) {
    options.siblings = like->found;
    // What stands on rows of another length has to be looked for anew.
    options.siblings_decide = like->found.front().thorough && like->row == row_of(plan);
  }
  const KinKey kin{key, plan.shape.size()};
  if (const auto plain = kin_.find(kin); plain != kin_.end()) options.kin = plain->second;
  if (const auto counted = counted_.find(kin); counted != counted_.end()) options.counted = counted->second;
  const AxesKey axes{plan.dtype, plan.role, plan.shape.size()};
  if (const auto in_vain = in_vain_.find(axes); in_vain != in_vain_.end()) options.in_vain = in_vain->second;
}

void Sharing::learn(const RecordPlan& plan, const synth::Choice& choice) {
  if (!has_like(plan)) return;
  const Key key{plan.dtype, plan.role, size_class(plan)};
  if (choice.sibling) {
    siblings_by_shape_[{plan.dtype, plan.shape}].add(*choice.sibling, row_of(plan));
    siblings_by_role_[key].add(*choice.sibling, row_of(plan));
  }
  if (choice.mate) mates_.insert_or_assign(key, *choice.mate);
  const KinKey kin{key, plan.shape.size()};
  if (choice.in_vain) in_vain_.insert_or_assign({plan.dtype, plan.role, plan.shape.size()}, *choice.in_vain);
  if (choice.counted) counted_.insert_or_assign(kin, *choice.counted);
  if (!choice.frame_words.empty() && (choice.kin || !choice.shared))
    kin_.insert_or_assign(kin, choice.kin.value_or(synth::Kin{}));
}

}  // namespace brevis::pack
