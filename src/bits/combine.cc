// SPDX-License-Identifier: Apache-2.0
#include "bits/combine.h"

#include "bits/kernels.h"

#include "bits/combine_loops.h"

namespace brevis::bits {

#if defined(__x86_64__)
void combine_avx2(unsigned f, unsigned lane, uint64_t mask, const uint8_t* p, const uint8_t* q, uint8_t* out, size_t n);
void combine_avx512(unsigned f, unsigned lane, uint64_t mask, const uint8_t* p, const uint8_t* q, uint8_t* out,
                    size_t n);
#endif

void combine(Combine f, ConstWords p, ConstWords q, Words out) {
  const auto number = static_cast<unsigned>(f);
  const unsigned lane = out.lane();
  const uint64_t mask = low_mask(out.width);
#if defined(__x86_64__)
  if (kernels().name == "avx512") return combine_avx512(number, lane, mask, p.data, q.data, out.data, out.count);
  if (kernels().name == "avx2") return combine_avx2(number, lane, mask, p.data, q.data, out.data, out.count);
#endif
  combine_any<false>(number, lane, mask, p.data, q.data, out.data, out.count);
}

void uncombine(Combine f, ConstWords target, ConstWords q, Words p) {
  combine_any<true>(static_cast<unsigned>(f), p.lane(), low_mask(p.width), target.data, q.data, p.data, p.count);
}

}  // namespace brevis::bits
