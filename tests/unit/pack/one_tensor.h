// SPDX-License-Identifier: Apache-2.0
//
// A file of one tensor, packed: what its stream comes to and by which program. Threads: a directory of its own a call.
#pragma once

#include <doctest/doctest.h>

#include <cstring>

#include "brevis/pack.h"
#include "support/safetensors_writer.h"
#include "support/temp_dir.h"

namespace brevis::test {

struct PackedTensor {
  uint64_t bytes = 0;    // of the tensor's frames and tables
  uint64_t archive = 0;  // of the whole file
  std::string program;
};

inline PackedTensor pack_tensor(Dtype dtype, std::vector<uint64_t> shape, ByteVector words, PackOptions options) {
  const TempDir dir;
  TensorSpec spec = flat_tensor("weight", dtype, std::move(words));
  spec.shape = std::move(shape);
  write_file(dir / "m.safetensors", safetensors_bytes({spec}));
  options.sources = {dir / "m.safetensors"};
  options.target = dir / "m.brv";
  options.describe = true;
  const auto report = pack_files(options);
  REQUIRE(report);
  if (report->first_error() != nullptr) FAIL(report->first_error()->message());
  for (const PackedStream& stream : report->files.front().streams)
    if (stream.name == "weight") return {stream.bytes_out, report->bytes_out, stream.program};
  FAIL("the tensor is no stream of its own");
  return {};
}

template <class T>
ByteVector bytes_of(const std::vector<T>& words) {
  ByteVector out(words.size() * sizeof(T));
  std::memcpy(out.data(), words.data(), out.size());
  return out;
}

}  // namespace brevis::test
