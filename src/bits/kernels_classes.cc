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

void fill_scalar_classes(Kernels& table) {
  table.classify = scalar::classify;
  table.levels = scalar::levels;
  table.sum_classes = scalar::sum_classes;
  table.count_classes = scalar::count_classes;
}

#if defined(__x86_64__)
BREVIS_TARGET_BEGIN("avx2,bmi,bmi2,popcnt")
namespace avx2 {
namespace {
#include "bits/classes_loops.h"
}  // namespace
}  // namespace avx2
BREVIS_TARGET_END

void fill_avx2_classes(Kernels& table) {
  table.classify = avx2::classify;
  table.levels = avx2::levels;
  table.sum_classes = avx2::sum_classes;
  table.count_classes = avx2::count_classes;
}

BREVIS_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,popcnt")
namespace avx512 {
namespace {
#include "bits/classes_loops.h"
}  // namespace
}  // namespace avx512
BREVIS_TARGET_END

void fill_avx512_classes(Kernels& table) {
  table.classify = avx512::classify;
  table.levels = avx512::levels;
  table.sum_classes = avx512::sum_classes;
  table.count_classes = avx512::count_classes;
}
#endif

}  // namespace brevis::bits
