// SPDX-License-Identifier: Apache-2.0
#include "bits/kernels.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <string>

#include "brevis/log.h"

namespace brevis::bits {
namespace {

// One row per instruction set, least first, and after it those for CPUs that do some of it better. Each row starts as
// the row before and replaces what it has. A new variant is one line here.
struct Variant {
  std::string_view name;
  bool (*runs_here)();
  void (*fill)(Kernels&);
  std::string_view flavour = {};
};
constexpr std::array kVariants = {
    Variant{"scalar", [] { return true; },
            [](Kernels& table) {
              fill_scalar_words(table);
              fill_scalar_rans(table);
              fill_scalar_merge(table);
              fill_scalar_huffman(table);
              fill_scalar_offset(table);
              fill_scalar_fit(table);
              fill_scalar_deal(table);
              fill_scalar_classes(table);
              fill_scalar_scale(table);
              fill_scalar_combine(table);
            }},
#if defined(__x86_64__)
    Variant{"avx2", cpu_has_avx2,
            [](Kernels& table) {
              fill_avx2(table);
              fill_avx2_offset(table);
              fill_avx2_fit(table);
              fill_avx2_several(table);
              fill_avx2_join(table);
              fill_avx2_classes(table);
              fill_avx2_scale(table);
              fill_avx2_combine(table);
            }},
    Variant{"avx512", cpu_has_avx512,
            [](Kernels& table) {
              fill_avx512(table);
              fill_avx512_offset(table);
              fill_avx512_offset_rows(table);
              fill_avx512_fit(table);
              fill_avx512_deal(table);
              fill_avx512_several(table);
              fill_avx512_join(table);
              fill_avx512_classes(table);
              fill_avx512_scale(table);
              fill_avx512_combine(table);
            }},
    Variant{"avx512", cpu_permutes_pairs,
            [](Kernels& table) {
              fill_avx512_pairs(table);
              fill_avx512_pairs_several(table);
            },
            "pairs"},
#elif defined(__aarch64__)
    Variant{"neon", [] { return true; }, fill_neon},
#endif
};

// Names that BREVIS_CPU may have, least first, whether or not this build has kernels for them.
constexpr std::array<std::string_view, 4> kNames = {"scalar", "neon", "avx2", "avx512"};

struct Tables {
  std::array<Kernels, kVariants.size()> rows;
  size_t count = 0;

  Tables() {
    Kernels table{};
    for (const Variant& variant : kVariants) {
      if (!variant.runs_here()) break;
      table.name = variant.name;
      table.flavour = variant.flavour;
      variant.fill(table);
      rows[count++] = table;
    }
  }
};

const Tables& tables() {
  static const Tables all;
  return all;
}

size_t rank_of(std::string_view name) {
  size_t rank = 0;
  while (rank < kNames.size() && kNames[rank] != name) ++rank;
  return rank;
}

}  // namespace

const Kernels& kernels_for(std::string_view wish) {
  const Tables& all = tables();
  const Kernels& best = all.rows[all.count - 1];
  if (wish.empty()) return best;
  const size_t wished = rank_of(wish);
  if (wished == kNames.size()) {
    log(LogLevel::warning,
        "BREVIS_CPU=" + std::string(wish) + " is not one of scalar, avx2, avx512; using " + std::string(best.name));
    return best;
  }
  const Kernels* chosen = &all.rows[0];
  for (size_t i = 0; i < all.count; ++i)
    if (rank_of(all.rows[i].name) <= wished) chosen = &all.rows[i];
  if (chosen->name != wish)
    log(LogLevel::warning, "BREVIS_CPU=" + std::string(wish) + " cannot be served by this CPU and build; using " +
                               std::string(chosen->name));
  return *chosen;
}

namespace {

std::atomic<const Kernels*>& in_use() {
  static std::atomic<const Kernels*> table = [] {
    const char* wish = std::getenv("BREVIS_CPU");
    return &kernels_for(wish == nullptr ? "" : wish);
  }();
  return table;
}

}  // namespace

const Kernels& kernels() { return *in_use().load(std::memory_order_relaxed); }

void use_kernels(const Kernels& table) { in_use().store(&table, std::memory_order_relaxed); }

std::span<const Kernels> all_kernels() { return {tables().rows.data(), tables().count}; }

}  // namespace brevis::bits
