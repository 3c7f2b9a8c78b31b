// SPDX-License-Identifier: Apache-2.0
//
// combine.h for CPUs with AVX2.
#if defined(__x86_64__)
#include <cstddef>
#include <cstdint>

#include "bits/target.h"

BREVIS_TARGET_BEGIN("avx2,bmi,bmi2,popcnt")
#include "bits/combine_loops.h"

namespace brevis::bits {

void combine_avx2(unsigned f, unsigned lane, uint64_t mask, const uint8_t* p, const uint8_t* q, uint8_t* out,
                  size_t n) {
  combine_any<false>(f, lane, mask, p, q, out, n);
}

}  // namespace brevis::bits
BREVIS_TARGET_END
#endif
