// SPDX-License-Identifier: Apache-2.0
//
// combine.h for CPUs with AVX2.
#if defined(__x86_64__)
#include "bits/combine.h"
#include "bits/kernels.h"
#include "bits/target.h"

BREVIS_TARGET_BEGIN("avx2,bmi,bmi2,popcnt")
#include "bits/combine_loops.h"

namespace brevis::bits {
namespace {

void combine_avx2(Combine f, bool folded, ConstWords p, ConstWords q, Words out) {
  const auto run = folded ? combine_any<false, true> : combine_any<false, false>;
  run(static_cast<unsigned>(f), out.lane(), low_mask(out.width), p.data, q.data, out.data, out.count);
}

}  // namespace
}  // namespace brevis::bits
BREVIS_TARGET_END

namespace brevis::bits {

void fill_avx2_combine(Kernels& table) { table.combine = combine_avx2; }

}  // namespace brevis::bits
#endif
