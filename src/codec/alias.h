// SPDX-License-Identifier: Apache-2.0
//
// What the codec `alias` lends to those who decode its payloads together with others (dsl/fused.h).
//
// Threads: pure functions.
#pragma once

#include "bits/kernels.h"
#include "codec/codec.h"

namespace brevis::codec {

// Of a table that alias loaded; lives as long as it. In the form that kernels() want.
bits::AliasDecoder alias_decoder(const Table* table);

}  // namespace brevis::codec
