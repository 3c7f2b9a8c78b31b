// SPDX-License-Identifier: Apache-2.0
//
// Regions of a source whose functions may use more instructions than the build's baseline:
//
//   #include ...                       all of them first
//   BREVIS_TARGET_BEGIN("avx2,bmi2")
//   ... functions ...
//   BREVIS_TARGET_END
//
// Unlike flags for a whole file, a region cannot leak into inline functions of headers, of which the linker keeps one
// copy for all of the program. For the same reason code inside stays in an unnamed namespace and instantiates no
// templates of headers (the standard library's included). Callers see to it that the CPU has what the region uses.
#pragma once

#define BREVIS_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define BREVIS_TARGET_BEGIN(features) \
  BREVIS_PRAGMA(clang attribute push(__attribute__((target(features))), apply_to = function))
#define BREVIS_TARGET_END _Pragma("clang attribute pop")
#else
// g++ 12 takes the undefined vectors inside its own intrinsics for mistakes.
#define BREVIS_TARGET_BEGIN(features)                                                            \
  _Pragma("GCC push_options") BREVIS_PRAGMA(GCC target(features)) _Pragma("GCC diagnostic push") \
      _Pragma("GCC diagnostic ignored \"-Wmaybe-uninitialized\"")                                \
          _Pragma("GCC diagnostic ignored \"-Wuninitialized\"")
#define BREVIS_TARGET_END _Pragma("GCC diagnostic pop") _Pragma("GCC pop_options")
#endif
