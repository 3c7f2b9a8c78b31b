// SPDX-License-Identifier: Apache-2.0
//
// Bytes of safetensors files for tests: well-formed ones from a list of tensors, odd ones from a header as given.
//
// Errors:  none. Threads: pure functions.
#pragma once

#include <map>
#include <string>

#include "brevis/types.h"

namespace brevis::test {

struct TensorSpec {
  std::string name;
  Dtype dtype = Dtype::U8;
  std::vector<uint64_t> shape;  // empty: a scalar
  ByteVector bytes;
};

// A tensor of one dimension that fits its bytes.
TensorSpec flat_tensor(std::string name, Dtype dtype, ByteVector bytes);

// The JSON header that names the tensors in order, laid out back to back from 0. No padding.
std::string safetensors_header(const std::vector<TensorSpec>& tensors,
                               const std::map<std::string, std::string>& metadata = {});

// A whole file; the header is padded with spaces to a multiple of `align` as the reference writer does (1: not at all).
ByteVector safetensors_bytes(const std::vector<TensorSpec>& tensors,
                             const std::map<std::string, std::string>& metadata = {}, size_t align = 8);

// Length, header text and data exactly as given, whatever they are.
ByteVector safetensors_raw(std::string_view header, ByteSpan data = {});

// A small model of mixed dtypes (BF16, F16, F32, F8, I8, palette, constant, zero-heavy, empty and scalar tensors), as
// a stand-in for a real one: about `scale` KiB for each of the larger tensors.
std::vector<TensorSpec> mixed_model(uint64_t seed, size_t scale = 64);

}  // namespace brevis::test
