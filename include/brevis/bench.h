// SPDX-License-Identifier: Apache-2.0
//
// brevis bench: how fast archives encode and decode in memory on this machine, beside memcpy and zstd measured in the
// same run. Figures are medians of rounds in which everything takes its turn, so that a machine whose speed changes
// does so for all; the ratios are what may be compared between machines.
//
// Errors:  those of reading and packing; internal when a level decodes or encodes other bytes than it should.
// Threads: run_bench() pins the calling thread while it runs and uses a worker for each other core.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "brevis/error.h"

namespace brevis {

struct BenchOptions {
  std::vector<std::string> files;   // archives or safetensors files; the latter are packed first
  unsigned rounds = 5;              // at least so many for each file, one or more
  double seconds = 0;               // and at least so long for each file
  std::function<bool()> cancelled;  // may be empty
};

// Medians over the rounds. A ratio is of speeds within a round: 0.25 of memcpy takes four times as long.
struct BenchSpeed {
  double gb_per_s = 0;   // 10^9 bytes of the original a second
  double of_memcpy = 0;  // of all that is coded, on as many cores
  double of_zstd3 = 0;   // the same direction, the whole file, on as many cores
};
struct BenchRate {
  BenchSpeed one_core;   // by the thread's CPU time
  BenchSpeed all_cores;  // by the clock on the wall
};

// "zstd -3", "zstd -9", or the name of a kernel level: "scalar", "avx2", ...
struct BenchWay {
  std::string name;
  uint64_t packed_bytes = 0;
  BenchRate decode, encode;
};

// Streams of one dtype ("header" and "opaque" for what is no tensor) and one program; or of a dtype alone.
struct BenchGroup {
  std::string dtype;
  std::string program;  // empty: any
  uint64_t streams = 0, frames = 0;
  uint64_t bytes = 0, packed_bytes = 0;  // of the streams, and of their frames
  std::vector<BenchWay> ways;            // kernel levels, least first
};

struct BenchFile {
  std::string path;
  bool was_archive = false;
  uint64_t bytes = 0;         // of the original
  uint64_t packed_bytes = 0;  // of the archive, everything included
  uint64_t coded_bytes = 0;   // of the original that frames give: without duplicates and constants
  unsigned rounds = 0;
  BenchRate memcpy_rate;
  std::vector<BenchWay> ways;      // zstd, then kernel levels
  std::vector<BenchGroup> dtypes;  // by name
  std::vector<BenchGroup> groups;  // by dtype, then bytes, most first
};

struct BenchReport {
  std::string cpu;  // as the kernel names it
  unsigned cores = 0;
  std::vector<std::string> levels;
  std::string zstd_version;
  std::vector<BenchFile> files;
};

Result<BenchReport> run_bench(const BenchOptions& options);

// A page with tables and plots that needs nothing but itself; replaces what is at `path`.
Status write_bench_page(const BenchReport& report, const std::string& path);

}  // namespace brevis
