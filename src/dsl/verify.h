// SPDX-License-Identifier: Apache-2.0
//
// The gate that every program passes, whether typed by a person, proposed by the packer or read from a file that cannot
// be trusted: ids, arity, types, parameter ranges, size, depth, and where each operator may stand.
//
// Errors: invalid_argument with the operator and the rule (readers of archives turn it into `corrupt`); unsupported
// for an operator or codec id that this build does not know.
#pragma once

#include "dsl/program.h"

namespace brevis::dsl {

// Limits of format version 1, each with its reason.
constexpr size_t kMaxNodes = 4096;                        // bounds the work of every walk over a program
constexpr size_t kMaxDepth = 32;                          // bounds recursion
constexpr size_t kMaxParams = 256;                        // of one node; concat and merge are the widest
constexpr uint64_t kMinFrameBytes = 4096;                 // of output; below, lane states outweigh the data
constexpr uint64_t kMaxFrameBytes = uint64_t{1} << 20;    // of output: the memory one decode can need
constexpr uint64_t kMaxFrameWords = kMaxFrameBytes;       // of any stream: positions inside a frame have 20 bits
constexpr uint64_t kMaxWordListSize = 65536;              // entries of a palette or rank table
constexpr uint64_t kMaxTableEntries = uint64_t{1} << 23;  // of all tables of a record: what binding can allocate
constexpr unsigned kPositionBits = 20;  // gaps and run lengths inside a frame: kMaxFrameBytes one-byte words
constexpr size_t kMaxTableSet = 16;     // tables among which a frame picks one
constexpr size_t kMaxBases = 4;         // `base` nodes of a program: what a frame may need of other files
// Streams alive at once inside one frame, in lane bytes: what a hostile program could make a decode allocate.
constexpr uint64_t kMaxFrameScratchBytes = uint64_t{64} << 20;

// Most words in a frame whose output has words of `width` bits.
constexpr uint64_t max_frame_words(unsigned width) { return width < 8 ? kMaxFrameWords : kMaxFrameBytes * 8 / width; }

// `templates`: literals may leave their codec open (`literal` without parameter), as in `--program`; such a program
// cannot be bound or run, only completed.
Result<Program> build(unsigned width, const Expr& expr, bool templates = false);

}  // namespace brevis::dsl
