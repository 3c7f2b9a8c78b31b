// SPDX-License-Identifier: Apache-2.0
#include "files.h"

#include <filesystem>

#include "brevis/archive.h"
#include "brevis/model.h"

namespace brevis::tools {
namespace {

namespace stdfs = std::filesystem;

// What a file that is no archive holds, when it can be told.
Result<Verdict> examine_other(const std::string& path) {
  BREVIS_ASSIGN(Verdict verdict, examine_file(path));
  if (verdict.kind != VerdictKind::not_safetensors) verdict.looks_like = "safetensors";
  return verdict;
}

}  // namespace

Status require_archive(const std::string& path) {
  BREVIS_ASSIGN(const auto archive, peek_archive(path));
  if (archive) return {};
  BREVIS_ASSIGN(const Verdict verdict, examine_other(path));
  return make_error(Errc::corrupt, "'" + path + "' is no Brevis archive: it looks like " + verdict.looks_like);
}

Status require_archive_or_directory(const std::string& path) {
  std::error_code failed;
  if (stdfs::is_directory(path, failed)) return {};
  return require_archive(path);
}

Status require_model(const std::string& path) {
  BREVIS_ASSIGN(const auto archive, peek_archive(path));
  if (archive) return {};
  BREVIS_ASSIGN(const Verdict verdict, examine_other(path));
  if (verdict.kind != VerdictKind::not_safetensors) return {};
  return make_error(Errc::corrupt,
                    "'" + path + "' is neither an archive nor safetensors: it looks like " + verdict.looks_like);
}

}  // namespace brevis::tools
