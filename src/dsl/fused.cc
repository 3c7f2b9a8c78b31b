// SPDX-License-Identifier: Apache-2.0
#include "dsl/fused.h"

namespace brevis::dsl {

FusedRun choose_fused(const BoundProgram&, uint32_t) { return nullptr; }

}  // namespace brevis::dsl
