// SPDX-License-Identifier: Apache-2.0
//
// The write side: files and model directories into archives. An archive appears under its name whole, verified and
// durable, or not at all; sources are never touched.
//
// Errors:  one file's failure does not stop the others of a tree: PackReport lists them all. pack_files() itself fails
//          only for requests that make no sense (invalid_argument, not_found) or a target that cannot be made.
// Threads: pack_files() uses its own workers; `progress` is called from one thread at a time, `cancelled` from any.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "brevis/error.h"
#include "brevis/model.h"

namespace brevis {

struct PackProgress {
  std::string file;         // being packed, path as given or found
  uint64_t bytes_done = 0;  // of all sources together
  uint64_t bytes_total = 0;
  uint64_t bytes_packed = 0;  // written so far
};

// How hard to look for small programs: dense for the fewest bytes, whatever decoding costs, balanced for both,
// fast not at all (programs known to be good for each dtype).
enum class PackProfile : uint8_t { dense, balanced, fast };
// The search for programs: off, with even odds, or guided by a prior learned from the same file.
enum class PackSearch : uint8_t { off, uniform, prior };

struct PackOptions {
  std::vector<std::string> sources;
  std::string target;   // empty: archives go beside their sources
  bool strict = false;  // lenient files and files that are not safetensors, named so, are refused
  bool allow_truncated = false;
  bool follow_links = false;  // pack what links that leave the tree point to
  bool force = false;         // overwrite existing targets
  bool verify = true;         // decode every frame and compare as it is written
  bool sha256 = true;
  bool dry_run = false;                         // everything but writing
  unsigned jobs = 0;                            // workers, 0: cores
  uint64_t memory = uint64_t{512} << 20;        // cap on buffers; a search of whole frames may take 224 MiB beside
  uint64_t frame_bytes = uint64_t{512} << 10;   // decoded output of a frame, 4 KiB .. 1 MiB
  uint64_t opaque_min = uint64_t{64} << 10;     // other files of a tree: below copied, from here on packed
  std::map<std::string, std::string> programs;  // dtype name -> program text (templates allowed)
  PackProfile profile = PackProfile::balanced;
  PackSearch search = PackSearch::uniform;
  std::optional<uint64_t> expansions;          // productions that one search may apply (by profile)
  std::string prior;                           // file with a prior to use instead of learning one
  std::string save_prior;                      // file that the prior learned is written to
  std::set<std::string, std::less<>> without;  // operators that the search leaves out
  bool describe = false;                       // fill PackedFile::streams
  // Archives, or directories of them, that the results may stand on: what is equal there is named, what is like it
  // becomes a difference.
  std::vector<std::string> bases;
  std::vector<std::string> base_paths;  // where the bases of bases are looked for, too
  bool chain = false;                   // each source stands on the one before, every fifth alone
  bool dedupe = false;                  // what equals something in an archive of the same run is named
  // Sources are archives, whose originals are packed anew: alone, or against `bases`. Without a target each is
  // replaced.
  bool from_archives = false;
  bool resume = false;             // leave what is packed already, from the same source with the same options
  bool replace = false;            // read each archive back, then remove its source
  unsigned shard = 0, shards = 1;  // of all files to be packed take every shards-th, from this one on
  std::function<void(const PackProgress&)> progress;  // may be empty
  std::function<bool()> cancelled;                    // may be empty
};

// What a search did (PackOptions::describe).
struct SearchLog {
  uint64_t expansions = 0, refused = 0;  // productions applied; of them, those that could not stand there
  uint64_t states = 0, pruned = 0, dominated = 0;
  uint64_t targets = 0, work = 0;      // streams and words looked at
  uint64_t holes = 0, prior_hits = 0;  // of the program found: those where the likeliest production was the right one
  bool exhausted = false;              // nothing was left to try
  struct Point {
    uint64_t expansions, bytes;  // of the whole stream, expected
  };
  std::vector<Point> curve;  // the best so far, whenever it fell
};

// One stored stream: a tensor, a bundle of small ones, the header or other bytes (PackOptions::describe).
struct PackedStream {
  std::string name, dtype;
  uint64_t tensors = 0;                  // in a bundle, 1 else
  uint64_t bytes_in = 0, bytes_out = 0;  // frames and tables of its own
  std::string program;
  std::optional<SearchLog> search;  // when there was one; like streams share an answer
};

enum class PackAction : uint8_t { packed, copied, linked, skipped, failed };

struct PackedFile {
  std::string source, target;
  PackAction action = PackAction::packed;
  VerdictKind verdict = VerdictKind::not_safetensors;
  std::string warning;  // lenient files: rule and offset
  uint64_t bytes_in = 0, bytes_out = 0;
  uint64_t tensors = 0, duplicate_tensors = 0, duplicate_bytes = 0;
  uint64_t base_bytes = 0;  // that are read through other archives
  bool resumed = false;     // skipped: was packed already
  std::string sha256;       // hex, empty when not made
  // Of processors: for choosing programs, and for what a program takes once it is chosen: steps fitted to the tensor,
  // what they leave counted, tables trained and loaded, frames that were encoded while choosing and are written.
  double planning_seconds = 0, training_seconds = 0;
  std::vector<PackedStream> streams;
  std::optional<Error> error;  // action failed
};

struct PackReport {
  std::vector<PackedFile> files;  // in the order of the walk
  uint64_t bytes_in = 0, bytes_out = 0;
  double seconds = 0;
  // The first failure, if any: what the exit code is made from.
  const Error* first_error() const;
};

Result<PackReport> pack_files(const PackOptions& options);

}  // namespace brevis
