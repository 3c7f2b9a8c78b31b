// SPDX-License-Identifier: Apache-2.0
#include "bits/combine.h"

#include "bits/kernels.h"

#include "bits/combine_loops.h"

namespace brevis::bits {
namespace {

void combine_scalar(Combine f, ConstWords p, ConstWords q, Words out) {
  combine_any<false>(static_cast<unsigned>(f), out.lane(), low_mask(out.width), p.data, q.data, out.data, out.count);
}

}  // namespace

void fill_scalar_combine(Kernels& table) { table.combine = combine_scalar; }

void combine(Combine f, ConstWords p, ConstWords q, Words out) { kernels().combine(f, p, q, out); }

void uncombine(Combine f, ConstWords target, ConstWords q, Words p) {
  combine_any<true>(static_cast<unsigned>(f), p.lane(), low_mask(p.width), target.data, q.data, p.data, p.count);
}

}  // namespace brevis::bits
