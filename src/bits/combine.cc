// SPDX-License-Identifier: Apache-2.0
#include "bits/combine.h"

#include <algorithm>
#include <cstring>

#include "bits/kernels.h"

#include "bits/combine_loops.h"

namespace brevis::bits {
namespace {

void combine_scalar(Combine f, bool folded, ConstWords p, ConstWords q, Words out) {
  const auto run = folded ? combine_any<false, true> : combine_any<false, false>;
  run(static_cast<unsigned>(f), out.lane(), low_mask(out.width), p.data, q.data, out.data, out.count);
}

// 0, -1, 1, -2, 2.. become 0, 1, 2, 3, 4..
void fold(Words words) {
  const unsigned width = words.width;
  visit_lane(width, [&]<class T>(T) {
    const auto mask = static_cast<T>(low_mask(width));
    for (size_t i = 0; i < words.count; ++i) {
      const T word = combine_load<T>(words.data, i),
              negative = static_cast<T>(T{0} - static_cast<T>(word >> (width - 1)));
      combine_store<T>(words.data, i, static_cast<T>(static_cast<T>(static_cast<T>(word << 1) ^ negative) & mask));
    }
  });
}

}  // namespace

void fill_scalar_combine(Kernels& table) { table.combine = combine_scalar; }

void combine(Combine f, ConstWords p, ConstWords q, Words out, bool folded) { kernels().combine(f, folded, p, q, out); }

void uncombine(Combine f, ConstWords target, ConstWords q, Words p, bool folded) {
  combine_any<true, false>(static_cast<unsigned>(f), p.lane(), low_mask(p.width), target.data, q.data, p.data, p.count);
  if (folded) fold(p);
}

std::vector<size_t> differing(ConstWords a, ConstWords b) {
  constexpr size_t kAtOnce = 512;  // words that are equal mostly
  std::vector<size_t> places;
  const size_t lane = a.lane();
  for (size_t first = 0; first < a.count; first += kAtOnce) {
    const size_t end = std::min(first + kAtOnce, a.count);
    if (std::memcmp(a.data + first * lane, b.data + first * lane, (end - first) * lane) == 0) continue;
    visit_lane(a.width, [&]<class T>(T) {
      for (size_t i = first; i < end; ++i)
        if (combine_load<T>(a.data, i) != combine_load<T>(b.data, i)) places.push_back(i);
    });
  }
  return places;
}

}  // namespace brevis::bits
