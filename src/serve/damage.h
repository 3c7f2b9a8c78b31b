// SPDX-License-Identifier: Apache-2.0
//
// The one log line about a frame that cannot be served: archive, tensor, frame, offset.
//
// Errors:  none: what cannot be found out is left out. Threads: any. May read the archive's prefix from storage.
#pragma once

#include "archive/layout.h"

namespace brevis::serve {

// `offset`: of the original file, where the reader wanted the frame's bytes.
void log_damage(const archive::Reader& reader, const archive::FilePiece& piece, uint64_t offset, const Error& error);

// Name of the tensor that holds this byte of the original file; empty when there is none or its name cannot be read.
std::string tensor_at(const archive::Reader& reader, uint64_t offset);

}  // namespace brevis::serve
