// SPDX-License-Identifier: Apache-2.0
#include "synth/table_sets.h"

#include <algorithm>

#include "dsl/encode.h"
#include "dsl/verify.h"
#include "synth/complete.h"

namespace brevis::synth {
namespace {

constexpr uint64_t kNever = UINT64_MAX;

uint64_t bytes_of(const std::vector<ByteVector>& tables) {
  uint64_t sum = 0;
  for (const auto& table : tables) sum += table.size();
  return sum;
}

}  // namespace

std::vector<std::vector<ByteVector>> single_sets(const std::vector<ByteVector>& tables) {
  std::vector<std::vector<ByteVector>> sets;
  for (const auto& table : tables) sets.push_back({table});
  return sets;
}

Result<std::shared_ptr<const dsl::BoundProgram>> bind_sets(std::shared_ptr<const dsl::Program> program,
                                                           const std::vector<std::vector<ByteVector>>& sets) {
  std::vector<std::vector<dsl::SlotTable>> slots;
  for (size_t i = 0; i < sets.size(); ++i) {
    slots.emplace_back();
    for (const ByteVector& stored : sets[i]) {
      BREVIS_ASSIGN(auto table, dsl::load_slot(*program, program->slots()[i], stored));
      slots.back().push_back(std::move(table));
    }
  }
  return dsl::BoundProgram::bind(std::move(program), std::move(slots));
}

std::vector<std::vector<ByteVector>> add_tables(const dsl::BoundProgram& bound, const std::vector<ByteVector>& tables,
                                                std::span<const StreamStats> parts, uint64_t frames_a_part) {
  std::vector<std::vector<ByteVector>> sets = single_sets(tables);
  for (const StreamStats& part : parts) {
    if (part.words == 0 || part.width > 16 || tables.empty()) continue;
    const codec::Histogram histogram = part.field(0, part.width);
    const auto own = dsl::estimate(bound.program(), 0, histogram);
    if (!own || !*own) continue;
    const uint64_t whole = cost_under(bound, histogram).value_or(kNever);
    const uint64_t price = (*own)->bits * 256 + (bytes_of((*own)->tables) + frames_a_part * tables.size()) * 8 * 256;
    if (price >= whole) continue;
    for (size_t slot = 0; slot < sets.size(); ++slot) {
      auto& set = sets[slot];
      const ByteVector& table = (*own)->tables[slot];
      const bool is_new = std::find(set.begin(), set.end(), table) == set.end();
      if (is_new && set.size() < dsl::kMaxTableSet) set.push_back(table);
    }
  }
  return sets;
}

std::optional<uint64_t> cost_by_parts(const dsl::Expr& expr, std::span<const StreamStats> parts, uint64_t frame_words) {
  uint64_t sum = 0;
  for (const StreamStats& part : parts) {
    const auto done = complete_order0(expr, part.field(0, part.width), frame_words);
    if (!done) return std::nullopt;
    sum += done->cost;
  }
  return sum;
}

}  // namespace brevis::synth
