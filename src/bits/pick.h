// SPDX-License-Identifier: Apache-2.0
//
// A choice between two words that is never a branch, since nobody could predict it: coded data decides.
//
// Threads: pure functions.
#pragma once

#include <cstdint>

namespace brevis::bits {

// a < b ? yes : no. Compilers that see this as arithmetic take twice the steps, and as a condition often a jump.
inline uint32_t pick_below(uint32_t a, uint32_t b, uint32_t yes, uint32_t no) {
#if defined(__x86_64__)
  asm("cmp %[b], %[a]\n\tcmovb %[yes], %[no]" : [no] "+r"(no) : [a] "r"(a), [b] "rme"(b), [yes] "rm"(yes) : "cc");
  return no;
#else
  return a < b ? yes : no;
#endif
}

}  // namespace brevis::bits
