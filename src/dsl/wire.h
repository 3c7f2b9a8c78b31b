// SPDX-License-Identifier: Apache-2.0
//
// The binary form of a program, as stored in an archive: canonical (one program, one spelling), defined in
// docs/format.md. Codecs of literals are always named.
//
// Errors: read gives corrupt (bytes, rules) or unsupported (unknown operator or codec id). Threads: pure functions.
#pragma once

#include "base/coding.h"
#include "dsl/program.h"

namespace brevis::dsl {

void write_program(const Program& program, ByteVector& out);

// Reads one program off the front of `in` and passes it through the gate (verify.h). `max_op_since`: operators newer
// than this format version are refused.
Result<Program> read_program(ByteReader& in);

}  // namespace brevis::dsl
