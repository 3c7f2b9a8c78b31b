// SPDX-License-Identifier: Apache-2.0
//
// Sums over the fields of words, as fitting an `offset` or a `context` to a stream takes them: the same loops for every
// instruction set.
#include "bits/kernels.h"
#include "bits/target.h"

namespace brevis::bits {

namespace scalar {
namespace {
#include "bits/fit_loops.h"
}  // namespace
}  // namespace scalar

void fill_scalar_fit(Kernels& table) { scalar::fill(table); }

#if defined(__x86_64__)
BREVIS_TARGET_BEGIN("avx2")
namespace avx2 {
namespace {
#include "bits/fit_loops.h"
}  // namespace
}  // namespace avx2
BREVIS_TARGET_END

void fill_avx2_fit(Kernels& table) { avx2::fill(table); }

BREVIS_TARGET_BEGIN("avx512f,avx512bw,avx512vl,avx512dq")
namespace avx512 {
namespace {
#include "bits/fit_loops.h"
}  // namespace
}  // namespace avx512
BREVIS_TARGET_END

void fill_avx512_fit(Kernels& table) { avx512::fill(table); }
#endif

}  // namespace brevis::bits
