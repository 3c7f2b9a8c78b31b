// SPDX-License-Identifier: Apache-2.0
//
// Inputs as the command line names them: is this a file that a command can take?
//
// Errors:  not_found, permission, io; corrupt (exit 65, bad input) for a file of the wrong kind, saying what it looks
//          like. Threads: pure.
#pragma once

#include <string>

#include "brevis/error.h"

namespace brevis::tools {

Status require_archive(const std::string& path);
Status require_archive_or_directory(const std::string& path);
// An archive, or a safetensors file of any verdict but "not safetensors".
Status require_model(const std::string& path);

}  // namespace brevis::tools
