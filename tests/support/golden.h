// SPDX-License-Identifier: Apache-2.0
//
// Goldens: bytes that every later version must still make or read, kept in tests/golden/v1. A golden that exists never
// changes; a missing one is written only under BREVIS_ACCEPT=1 (tools/dev/accept.sh), so that nobody accepts by habit.
//
// Errors:  std::runtime_error when the folder of the tests is unknown. Threads: one.
#pragma once

#include <string>

#include "brevis/types.h"

namespace brevis::test {

// A file of the tests' folder in the source tree (BREVIS_TEST_DATA, set by meson).
std::string test_data(std::string_view relative);

// Empty when tests/golden/v1/NAME holds exactly these bytes (or was just accepted), else what differs:
//   CHECK(golden_difference("name.brv", bytes) == "");
std::string golden_difference(const std::string& name, ByteSpan bytes);

}  // namespace brevis::test
