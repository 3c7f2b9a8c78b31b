// SPDX-License-Identifier: Apache-2.0
#include "synth/slots.h"

#include "dsl/encode.h"
#include "dsl/verify.h"

namespace brevis::synth {

std::optional<FittedSlot> fit_slot(const dsl::OpSpec& spec, const dsl::Node& node, const dsl::Target& target) {
  FittedSlot out;
  if (spec.slot == dsl::SlotKind::none) return out;
  if (spec.slot == dsl::SlotKind::word_list) {
    auto words = spec.choose_words(node, *target.histogram);
    if (!words) return std::nullopt;
    out.list.words = std::move(*words);
    out.bytes = dsl::store_word_list(out.list.words).size();
    return out;
  }
  if (spec.slot != dsl::SlotKind::blob) return std::nullopt;
  const auto stored = dsl::suit_slot(node, target);
  if (!stored) return std::nullopt;
  auto blob = spec.load(node, *stored);
  if (!blob) return std::nullopt;
  out.blob = std::move(*blob);
  out.bytes = stored->size();
  return out;
}

}  // namespace brevis::synth
