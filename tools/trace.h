// SPDX-License-Identifier: Apache-2.0
//
// The search for programs, shown: `brevis inspect --trace`.
//
// Errors: those of reading, unpacking and packing; not_found for a tensor that is no stream of its own. Threads: one.
#pragma once

#include <string>

#include "brevis/error.h"

namespace brevis::tools {

// Runs the search over the file (of an archive: over what it holds) and prints what it did. Nothing is written but
// temporary files.
Status trace_file(const std::string& path, bool is_archive, const std::string& tensor, bool json);

}  // namespace brevis::tools
