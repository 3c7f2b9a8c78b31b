// SPDX-License-Identifier: Apache-2.0
#include "dsl/op.h"

#include <array>

namespace brevis::dsl {
namespace {

constexpr const OpSpec* kOps[] = {
#define OP(id, name, since) &name##_op,
#include "dsl/ops.def"
#undef OP
};

// A repeated or misordered id in ops.def is a mistake that must not compile: ids are on disk.
constexpr unsigned kIds[] = {
#define OP(id, name, since) id,
#include "dsl/ops.def"
#undef OP
};
consteval bool ids_ascend() {
  for (size_t i = 1; i < std::size(kIds); ++i)
    if (kIds[i] <= kIds[i - 1]) return false;
  return kIds[std::size(kIds) - 1] < 256;
}
static_assert(ids_ascend(), "ops.def: ids must be unique, ascending and below 256");

constexpr auto kById = [] {
  std::array<const OpSpec*, 256> table{};
#define OP(id, name, since) table[id] = &name##_op;
#include "dsl/ops.def"
#undef OP
  return table;
}();

}  // namespace

std::span<const OpSpec* const> all_ops() { return kOps; }

const OpSpec* find_op(uint64_t id) { return id < kById.size() ? kById[id] : nullptr; }

const OpSpec* find_op(std::string_view name) {
  for (const OpSpec* spec : kOps)
    if (spec->name == name) return spec;
  return nullptr;
}

const OpSpec& spec_of(OpId id) { return *kById[static_cast<size_t>(id)]; }

}  // namespace brevis::dsl
