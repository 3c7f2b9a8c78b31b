// SPDX-License-Identifier: Apache-2.0
//
// Levels times scales, as `dequantise` makes words of them: the same loops for every instruction set.
#include "bits/kernels.h"
#include "bits/target.h"

namespace brevis::bits {

namespace scalar {
namespace {
#include "bits/scale_loops.h"
}  // namespace
}  // namespace scalar

void fill_scalar_scale(Kernels& table) { scalar::fill(table); }

#if defined(__x86_64__)
BREVIS_TARGET_BEGIN("avx2")
namespace avx2 {
namespace {
#include "bits/scale_loops.h"
}  // namespace
}  // namespace avx2
BREVIS_TARGET_END

void fill_avx2_scale(Kernels& table) { avx2::fill(table); }

BREVIS_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")
namespace avx512 {
namespace {
#include "bits/scale_loops.h"
}  // namespace
}  // namespace avx512
BREVIS_TARGET_END

void fill_avx512_scale(Kernels& table) { avx512::fill(table); }
#endif

}  // namespace brevis::bits
