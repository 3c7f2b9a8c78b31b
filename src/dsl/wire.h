// SPDX-License-Identifier: Apache-2.0
//
// The binary form of a program, as stored in an archive: canonical (one program, one spelling), defined in
// docs/format-programs.md. Codecs of literals are always named.
//
// Requires: programs to be written are complete, no templates.
// Errors:   read gives corrupt (bytes, rules) or unsupported (unknown operator, form or codec id).
// Threads:  pure functions.
#pragma once

#include "base/coding.h"
#include "dsl/program.h"

namespace brevis::dsl {

void write_program(const Program& program, ByteVector& out);

// Reads one program off the front of `in` and passes it through the gate (verify.h). Memory and time are bounded by
// the gate's limits, whatever the bytes.
Result<Program> read_program(ByteReader& in);

}  // namespace brevis::dsl
