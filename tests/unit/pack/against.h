// SPDX-License-Identifier: Apache-2.0
//
// One tensor packed against another, by different numbers of jobs, and read back: what the tests of patches and updates
// look at.
//
// Errors and threads: as doctest.
#pragma once

#include <doctest/doctest.h>

#include <filesystem>
#include <string>

#include "archive/bases.h"
#include "archive/layout.h"
#include "brevis/pack.h"
#include "support/safetensors_writer.h"
#include "support/temp_dir.h"
#include "support/weights.h"

namespace brevis::test {

struct Against {
  uint64_t bytes, alone;                // of the archive, and without a base
  dsl::OpId root = dsl::OpId::literal;  // of the tensor's program
};

inline Against pack_against(Dtype dtype, const ByteVector& base, const ByteVector& next) {
  const TempDir dir;
  write_file(dir / "a.safetensors", safetensors_bytes({flat_tensor("w", dtype, base)}));
  const ByteVector file = safetensors_bytes({flat_tensor("w", dtype, next)});
  write_file(dir / "b.safetensors", file);
  PackOptions options;
  options.search = PackSearch::off;
  options.jobs = 1;
  const auto run = [&](const char* source, const char* target) {
    options.sources = {dir / source};
    options.target = dir / target;
    const auto report = pack_files(options);
    REQUIRE(report);
    if (report->first_error() != nullptr) FAIL(report->first_error()->message());
  };
  run("a.safetensors", "a.brv");
  run("b.safetensors", "alone.brv");
  options.bases = {dir / "a.brv"};
  run("b.safetensors", "b.brv");
  options.jobs = 3;
  run("b.safetensors", "again.brv");
  CHECK(read_file(dir / "b.brv") == read_file(dir / "again.brv"));
  archive::DirectoryFinder finder;
  const auto reader = archive::open_with_bases(dir / "b.brv", finder);
  REQUIRE(reader);
  ByteVector back(file.size());
  REQUIRE(archive::read_range(**reader, {0, back.size()}, back));
  CHECK(back == file);
  Against out{std::filesystem::file_size(dir / "b.brv"), std::filesystem::file_size(dir / "alone.brv")};
  for (const archive::Record& record : (*reader)->manifest().records)
    if (!record.bases.empty()) out.root = (*reader)->manifest().programs[record.program]->root().op;
  return out;
}

}  // namespace brevis::test
