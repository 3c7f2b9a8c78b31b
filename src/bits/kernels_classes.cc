// SPDX-License-Identifier: Apache-2.0
//
// Which of four classes words belong to, by a field or by levels of other words, and how many each class has (operators
// `update`, `context` and `select`): the same loops for every instruction set.
#include "bits/kernels.h"
#include "bits/target.h"

namespace brevis::bits {

namespace scalar {
namespace {
#include "bits/classes_loops.h"
}  // namespace
}  // namespace scalar

void fill_scalar_classes(Kernels& table) { scalar::fill(table); }

#if defined(__x86_64__)
BREVIS_TARGET_BEGIN("avx2,bmi,bmi2,popcnt")
namespace avx2 {
namespace {
#include "bits/classes_loops.h"
}  // namespace
}  // namespace avx2
BREVIS_TARGET_END

void fill_avx2_classes(Kernels& table) { avx2::fill(table); }

BREVIS_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,popcnt")
namespace avx512 {
namespace {
#include "bits/classes_loops.h"
}  // namespace
}  // namespace avx512
BREVIS_TARGET_END

void fill_avx512_classes(Kernels& table) { avx512::fill(table); }
#endif

}  // namespace brevis::bits
