// SPDX-License-Identifier: Apache-2.0
//
// brevis inspect --trace: what the search for programs did with each stream of a file. The search runs again; of an
// archive the original is unpacked beside the temporary files first.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "brevis/archive.h"
#include "brevis/extract.h"
#include "brevis/pack.h"
#include "commands.h"
#include "json_output.h"
#include "output.h"
#include "sizes.h"
#include "trace.h"

namespace brevis::tools {
namespace {

namespace stdfs = std::filesystem;

// A directory of its own that goes when the trace ends.
class Scratch {
 public:
  static Result<Scratch> make() {
    std::error_code failed;
    std::string name = (stdfs::temp_directory_path(failed) / "brevis-trace-XXXXXX").string();
    if (failed || ::mkdtemp(name.data()) == nullptr)
      return make_error(Errc::io, "cannot make a directory for temporary files: set TMPDIR to one");
    return Scratch(std::move(name));
  }
  Scratch(Scratch&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  Scratch& operator=(Scratch&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) stdfs::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Json json_log(const SearchLog& log) {
  Json curve = Json::array();
  for (const auto& point : log.curve) curve.push_back({{"expansions", point.expansions}, {"bytes", point.bytes}});
  return {
      {"expansions", log.expansions}, {"refused", log.refused},     {"states", log.states},     {"pruned", log.pruned},
      {"dominated", log.dominated},   {"targets", log.targets},     {"words", log.work},        {"holes", log.holes},
      {"prior_hits", log.prior_hits}, {"exhausted", log.exhausted}, {"curve", std::move(curve)}};
}

void print_stream(const PackedStream& stream) {
  std::printf("\n%s  %s%s\n", printable(stream.name).c_str(), printable(stream.dtype).c_str(),
              stream.tensors > 1 ? (", " + counted(stream.tensors, "tensor")).c_str() : "");
  std::printf("  bytes    %s -> %s\n", grouped(stream.bytes_in).c_str(), grouped(stream.bytes_out).c_str());
  std::printf("  program  %s\n", printable(stream.program).c_str());
  if (!stream.search) {
    std::printf("  search   none: known programs, or a like stream's answer\n");
    return;
  }
  const SearchLog& log = *stream.search;
  std::printf("  search   %s, %s refused; %s, %s pruned, %s dominated; %s of %s words%s\n",
              counted(log.expansions, "expansion").c_str(), grouped(log.refused).c_str(),
              counted(log.states, "state").c_str(), grouped(log.pruned).c_str(), grouped(log.dominated).c_str(),
              counted(log.targets, "target").c_str(), grouped(log.work).c_str(), log.exhausted ? "; exhausted" : "");
  std::printf("  prior    right first for %s of %s\n", grouped(log.prior_hits).c_str(),
              counted(log.holes, "hole").c_str());
  for (const auto& point : log.curve)
    std::printf("  best     %15s bytes after %s\n", grouped(point.bytes).c_str(),
                counted(point.expansions, "expansion").c_str());
}

}  // namespace

Status trace_file(const std::string& path, bool is_archive, const std::string& tensor, bool json) {
  std::optional<Scratch> scratch;
  PackOptions options;
  options.sources = {path};
  if (is_archive) {
    BREVIS_ASSIGN(scratch, Scratch::make());
    ExtractOptions extracting;
    extracting.source = path;
    extracting.target = scratch->path() + "/original";
    BREVIS_ASSIGN(const ExtractReport extracted, extract(extracting));
    if (extracted.first_error() != nullptr) return *extracted.first_error();
    options.sources = {extracting.target};
  }
  options.target = "/dev/null";
  options.dry_run = options.describe = true;
  options.sha256 = false;
  options.allow_truncated = true;
  if (options.search == PackSearch::off) options.search = PackSearch::prior;
  BREVIS_ASSIGN(const PackReport report, pack_files(options));
  if (report.first_error() != nullptr) return *report.first_error();
  Json streams = Json::array();
  size_t shown = 0;
  for (const PackedStream& stream : report.files.front().streams) {
    if (!tensor.empty() && stream.name != tensor) continue;
    ++shown;
    if (!json) {
      print_stream(stream);
      continue;
    }
    Json one = {{"name", stream.name},         {"dtype", stream.dtype},         {"tensors", stream.tensors},
                {"bytes_in", stream.bytes_in}, {"bytes_out", stream.bytes_out}, {"program", stream.program}};
    one["search"] = stream.search ? json_log(*stream.search) : Json(nullptr);
    streams.push_back(std::move(one));
  }
  if (shown == 0 && !tensor.empty())
    return make_error(Errc::not_found, "'" + path + "' stores no stream '" + tensor + "' by itself");
  if (json) {
    Json document = json_document();
    document.update({{"path", path}, {"streams", std::move(streams)}});
    print_json(document);
  }
  return {};
}

}  // namespace brevis::tools
