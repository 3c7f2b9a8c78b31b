// SPDX-License-Identifier: Apache-2.0
#include "support/search_world.h"

namespace brevis::test {

using dsl::OpId;
using synth::Production;

std::vector<Production> SmallGrammar::region(const dsl::Target& target) const {
  std::vector<Production> out;
  const size_t distinct = target.histogram->counts.size();
  const uint64_t width = target.width;
  if (distinct == 1) out.push_back({OpId::constant, {target.histogram->counts[0].first}, {}});
  if (width % 2 == 0) out.push_back({OpId::merge, {width / 2, width / 2}, {}});
  if (distinct > 1 && distinct <= uint64_t{1} << (width - 1) && distinct <= 256)
    out.push_back({OpId::palette, {distinct}, {}});
  if (distinct > 4) out.push_back({OpId::rank, {3}, {}});
  if (distinct > 1) out.push_back({OpId::scan, {1, 1}, {}});
  if (target.histogram->counts.front().first == 0 && distinct > 1) out.push_back({OpId::zeros, {}, {}});
  std::erase_if(out, [&](const Production& p) { return without().count(dsl::spec_of(p.op).name) != 0; });
  return out;
}

std::vector<Production> SmallGrammar::skeleton(const dsl::Target& target) const {
  std::vector<Production> out;
  const uint64_t n = target.words;
  for (uint64_t period = 1; period <= 8; ++period)
    if (n % period == 0 && n / period > 4) out.push_back({OpId::repeat, {n / period}, {}});
  for (uint64_t times = 2; times <= 4; ++times)
    if (n % times == 0) out.push_back({OpId::repeat, {times}, {}});
  for (uint64_t quarter = 1; quarter <= 3; ++quarter)
    if (n >= 4) out.push_back({OpId::concat, {n / 4 * quarter}, {}});
  return out;
}

Windows mixed_windows(unsigned width, size_t count, size_t words, uint64_t seed) {
  Windows out;
  Rng rng(seed);
  const uint64_t mask = bits::low_mask(width);
  for (size_t w = 0; w < count; ++w) {
    out.store.emplace_back(width, words);
    const uint64_t kind = rng.below(5), base = rng.next() & mask;
    for (size_t i = 0; i < words; ++i) {
      uint64_t word = rng.next();
      if (kind == 1) word = base + i;
      if (kind == 2) word = base + (word & 3);
      if (kind == 3) word = (word & 7) == 0 ? word >> 8 : 0;
      if (kind == 4) word = base + (i >> 5);
      out.store.back().words().set(i, word & mask);
    }
    out.windows.push_back({out.words, out.store.back().view()});
    out.words += words;
  }
  return out;
}

}  // namespace brevis::test
