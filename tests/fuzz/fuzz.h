// SPDX-License-Identifier: Apache-2.0
//
// What fuzz targets share. A target is fuzz_NAME.cc with LLVMFuzzerTestOneInput and a folder corpora/NAME of small
// inputs; under clang with -Dfuzz=true it is a libFuzzer program, otherwise replay.cc feeds it the corpus.
//
// Errors: none; a broken promise ends the process, which is what fuzzers watch for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Like assert, in every build.
#define BREVIS_FUZZ_CHECK(condition)                                                       \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      std::fprintf(stderr, "%s:%d: broken promise: %s\n", __FILE__, __LINE__, #condition); \
      std::abort();                                                                        \
    }                                                                                      \
  } while (false)

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
