// SPDX-License-Identifier: Apache-2.0
//
// brevis ls: the files of a tree, or the tensors of an archive or of a plain safetensors file. A tree costs a header of
// 64 bytes for each archive, a file its index or header; no weights are read.
#include <algorithm>
#include <filesystem>

#include "brevis/archive.h"
#include "brevis/relations.h"
#include "command.h"
#include "commands.h"
#include "json_output.h"
#include "output.h"
#include "sizes.h"

namespace brevis::tools {
namespace {

namespace stdfs = std::filesystem;

struct Row {
  TensorInfo tensor;
  std::optional<ArchiveSpan> packed;
};

Json json_bases(const ArchiveInfo& info) {
  Json out = Json::array();
  for (const ArchiveBase& base : info.bases)
    out.push_back({{"id", to_hex(base.id)}, {"hint", base.hint}, {"bytes", base.original_size}, {"depth", base.depth}});
  return out;
}

Json json_tensor(const Row& row, uint64_t data_start) {
  const TensorInfo& tensor = row.tensor;
  Json out = {{"name", tensor.name},
              {"dtype", tensor.dtype_name},
              {"shape", tensor.shape},
              {"data_offsets", {tensor.span.offset - data_start, tensor.span.end() - data_start}},
              {"bytes", tensor.span.length}};
  if (!row.packed) return out;
  const ArchiveSpan& span = *row.packed;
  out["packed_bytes"] = span.packed_bytes;
  out["ratio"] = json_ratio(tensor.span.length, span.packed_bytes);
  out["xxh3_128"] = to_hex(span.digest);
  // A bundle of small tensors has one digest for all of them.
  out["digest_of"] = span.bundled ? "bundle" : "tensor";
  if (span.duplicate) out["duplicate"] = true;
  if (span.on_base) out["on_base"] = true;
  return out;
}

// In header order, as a scan of the header would meet them.
Json json_tensors(std::vector<Row> rows, uint64_t data_start) {
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.tensor.ordinal < b.tensor.ordinal; });
  Json out = Json::array();
  for (const Row& row : rows) out.push_back(json_tensor(row, data_start));
  return out;
}

void print_tensors(const std::vector<Row>& rows, bool packed) {
  using enum Table::Lean;
  std::vector<Table::Column> columns = {{"NAME"}, {"DTYPE"}, {"SHAPE"}, {"BYTES", right}};
  if (packed) columns.insert(columns.end(), {{"PACKED", right}, {"RATIO", right}, {"NOTE"}});
  Table table(columns);
  for (const Row& row : rows) {
    const TensorInfo& tensor = row.tensor;
    std::vector<std::string> cells = {printable(tensor.name), printable(tensor.dtype_name), shape_text(tensor.shape),
                                      grouped(tensor.span.length)};
    if (row.packed) {
      const ArchiveSpan& span = *row.packed;
      cells.push_back(grouped(span.packed_bytes));
      cells.push_back(ratio_text(tensor.span.length, span.packed_bytes));
      std::string note = span.duplicate ? "duplicate" : span.bundled ? "bundled" : "";
      if (span.on_base) note += note.empty() ? "on a base" : ", on a base";
      cells.push_back(std::move(note));
    }
    table.add(std::move(cells));
  }
  if (!rows.empty()) table.print();
}

void print_verdict(const Verdict& verdict) {
  if (verdict.kind == VerdictKind::valid) return;
  std::string line(verdict_name(verdict.kind));
  line += ": " + (verdict.looks_like.empty() ? verdict.reason : verdict.looks_like);
  std::printf("%s\n", printable(line).c_str());
}

Status list_archive(const std::string& path, bool json) {
  BREVIS_ASSIGN(const std::shared_ptr<const Archive> archive, Archive::open(path));
  BREVIS_ASSIGN(const Verdict verdict, archive->verdict());
  BREVIS_ASSIGN(const std::vector<ArchiveSpan> spans, archive->spans());
  const ArchiveInfo& info = archive->info();
  std::vector<Row> rows;
  Json opaque = Json::array();
  uint64_t opaque_bytes = 0;
  for (const ArchiveSpan& span : spans) {
    if (span.kind == SpanKind::tensor) rows.push_back({span.tensor, span});
    if (span.kind != SpanKind::opaque) continue;
    opaque_bytes += span.span.length;
    opaque.push_back({{"offset", span.span.offset},
                      {"bytes", span.span.length},
                      {"packed_bytes", span.packed_bytes},
                      {"xxh3_128", to_hex(span.digest)}});
  }
  if (json) {
    Json document = json_archive_document(path, info);
    if (info.sha256) document["sha256"] = to_hex(*info.sha256);
    if (!info.bases.empty()) document["bases"] = json_bases(info);
    put_verdict(document, verdict);
    document["tensors"] = json_tensors(std::move(rows), verdict.prefix_bytes);
    document["opaque"] = std::move(opaque);
    print_json(document);
    return {};
  }
  print_verdict(verdict);
  print_tensors(rows, true);
  for (const ArchiveBase& base : info.bases)
    std::printf("stands on %s (archive id %s)\n", base.hint.empty() ? "another archive" : printable(base.hint).c_str(),
                to_hex(base.id).c_str());
  std::printf("%s, %s bytes", counted(rows.size(), "tensor").c_str(), grouped(info.original_size).c_str());
  if (opaque_bytes != 0) std::printf(" (%s in no tensor)", grouped(opaque_bytes).c_str());
  std::printf(" packed into %s, ratio %s\n", grouped(info.archive_size).c_str(),
              ratio_text(info.original_size, info.archive_size).c_str());
  return {};
}

Status list_plain(const std::string& path, uint64_t bytes, bool json) {
  BREVIS_ASSIGN(const Verdict verdict, examine_file(path));
  std::vector<Row> rows;
  for (const TensorInfo& tensor : verdict.tensors) rows.push_back({tensor, std::nullopt});
  if (json) {
    Json document = json_document();
    const bool other = verdict.kind == VerdictKind::not_safetensors;
    document.update({{"path", path}, {"kind", other ? "file" : "safetensors"}, {"bytes", bytes}});
    put_verdict(document, verdict);
    document["tensors"] = json_tensors(std::move(rows), verdict.prefix_bytes);
    print_json(document);
    return {};
  }
  print_verdict(verdict);
  print_tensors(rows, false);
  std::printf("%s, %s bytes\n", counted(verdict.tensors.size(), "tensor").c_str(), grouped(bytes).c_str());
  return {};
}

// A tree's listing: gathered, then printed either way.
struct Listing {
  struct Item {
    std::string path;  // relative
    const char* kind;
    uint64_t bytes = 0;
    std::optional<uint64_t> packed;
  };
  std::vector<Item> items;
  uint64_t bytes = 0, packed = 0;
  int exit_code = kExitFine;
};

void add_file(Listing& listing, const std::string& path, const std::string& relative) {
  std::error_code failed;
  const uint64_t size = stdfs::file_size(path, failed);
  auto summary = peek_archive(path);
  if (!summary || failed) {
    const Error error = summary ? Error::from_errno(failed.value(), path) : std::move(summary).error();
    const int code = report(error);
    if (listing.exit_code == kExitFine) listing.exit_code = code;
    listing.items.push_back({relative, "damaged", failed ? 0 : size, std::nullopt});
    return;
  }
  if (*summary)
    listing.items.push_back({relative, "archive", (*summary)->original_size, (*summary)->archive_size});
  else
    listing.items.push_back({relative, "file", size, std::nullopt});
  listing.bytes += listing.items.back().bytes;
  listing.packed += listing.items.back().packed.value_or(size);
}

Result<Listing> walk(const std::string& root) {
  Listing listing;
  std::error_code failed;
  std::vector<stdfs::path> pending = {root};
  std::vector<std::pair<std::string, stdfs::file_status>> found;
  while (!pending.empty()) {
    const stdfs::path directory = std::move(pending.back());
    pending.pop_back();
    stdfs::directory_iterator entries(directory, failed);
    if (failed) return Error::from_errno(failed.value(), "listing '" + directory.string() + "'");
    for (const stdfs::directory_iterator end; entries != end; entries.increment(failed)) {
      if (failed) return Error::from_errno(failed.value(), "listing '" + directory.string() + "'");
      const stdfs::file_status status = entries->symlink_status(failed);
      if (stdfs::is_directory(status)) pending.push_back(entries->path());
      if (stdfs::is_regular_file(status) || stdfs::is_symlink(status))
        found.emplace_back(entries->path().string(), status);
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [path, status] : found) {
    const std::string relative = stdfs::path(path).lexically_relative(root).string();
    if (stdfs::is_symlink(status))
      listing.items.push_back({relative, "link", 0, std::nullopt});
    else
      add_file(listing, path, relative);
  }
  return listing;
}

Result<int> list_tree(const std::string& path, bool json) {
  BREVIS_ASSIGN(const Listing listing, walk(path));
  if (json) {
    Json document = json_document();
    document.update({{"path", path},
                     {"kind", "directory"},
                     {"bytes", listing.bytes},
                     {"packed_bytes", listing.packed},
                     {"ratio", json_ratio(listing.bytes, listing.packed)}});
    Json files = Json::array();
    for (const Listing::Item& item : listing.items) {
      Json file = {{"path", item.path}, {"kind", item.kind}, {"bytes", item.bytes}};
      if (item.packed) {
        file["packed_bytes"] = *item.packed;
        file["ratio"] = json_ratio(item.bytes, *item.packed);
      }
      files.push_back(std::move(file));
    }
    document["files"] = std::move(files);
    print_json(document);
    return listing.exit_code;
  }
  using enum Table::Lean;
  Table table({{"NAME"}, {"KIND"}, {"BYTES", right}, {"PACKED", right}, {"RATIO", right}});
  for (const Listing::Item& item : listing.items) {
    table.add({printable(item.path), item.kind, grouped(item.bytes), item.packed ? grouped(*item.packed) : "-",
               item.packed ? ratio_text(item.bytes, *item.packed) : "-"});
  }
  if (!listing.items.empty()) table.print();
  std::printf("%s, %s bytes in %s, ratio %s\n", counted(listing.items.size(), "file").c_str(),
              grouped(listing.bytes).c_str(), grouped(listing.packed).c_str(),
              ratio_text(listing.bytes, listing.packed).c_str());
  return listing.exit_code;
}

// Who stands on each archive of a directory, or on one archive in the directory that it is in.
Result<int> list_needed_by(const std::string& path, bool json) {
  std::error_code failed;
  const bool whole = stdfs::is_directory(path, failed);
  std::string directory = whole ? path : stdfs::path(path).parent_path().string();
  if (directory.empty()) directory = ".";
  BREVIS_ASSIGN(const std::vector<Relation> all, relations(directory));
  std::optional<Digest> wanted;
  if (!whole) {
    BREVIS_ASSIGN(const std::optional<ArchiveSummary> archive, peek_archive(path));
    if (!archive) return make_error(Errc::invalid_argument, "'" + path + "' is no archive");
    wanted = archive->id;
  }
  const auto shown = [](const Relation& relation) {
    if (!relation.base.empty()) return relation.base;
    return "missing: " + (relation.hint.empty() ? to_hex(relation.base_id) : relation.hint);
  };
  std::vector<std::pair<std::string, const Relation*>> rows;
  for (const Relation& relation : all)
    if (!wanted || relation.base_id == *wanted) rows.emplace_back(shown(relation), &relation);
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  if (json) {
    Json document = json_document();
    document.update({{"path", path}, {"kind", "relations"}});
    document["relations"] = Json::array();
    for (const auto& [base, relation] : rows)
      document["relations"].push_back({{"base", relation->base.empty() ? Json(nullptr) : Json(relation->base)},
                                       {"base_id", to_hex(relation->base_id)},
                                       {"hint", relation->hint},
                                       {"needed_by", relation->archive}});
    print_json(document);
    return kExitFine;
  }
  Table table({{"BASE"}, {"NEEDED BY"}});
  for (const auto& [base, relation] : rows) table.add({printable(base), printable(relation->archive)});
  if (!rows.empty()) table.print();
  if (rows.empty()) std::printf("no archive stands on %s\n", wanted ? "this one" : "another");
  return kExitFine;
}

Result<int> list(const std::string& path, bool json) {
  std::error_code failed;
  const stdfs::file_status status = stdfs::status(path, failed);
  if (status.type() == stdfs::file_type::not_found) return make_error(Errc::not_found, "no such file: '" + path + "'");
  if (failed) return Error::from_errno(failed.value(), "'" + path + "'");
  if (stdfs::is_directory(status)) return list_tree(path, json);
  BREVIS_ASSIGN(const std::optional<ArchiveSummary> archive, peek_archive(path));
  if (archive)
    BREVIS_TRY(list_archive(path, json));
  else
    BREVIS_TRY(list_plain(path, stdfs::file_size(path, failed), json));
  return kExitFine;
}

}  // namespace

int cmd_ls(int argc, char** argv) {
  CommandLine line("brevis ls", "[options] PATH",
                   "Lists PATH: the files of a directory, or the tensors of an archive or of a safetensors file.");
  std::string path;
  line.app().add_option("path", path, "archive, safetensors file or directory")->required();
  bool needed_by = false;
  line.app().add_flag("--needed-by", needed_by, "which archives of a directory stand on which, or on this one");
  line.add_json();
  if (const auto code = line.parse(argc, argv)) return *code;
  const auto done = needed_by ? list_needed_by(path, line.json()) : list(path, line.json());
  return done ? *done : report(done.error(), line.json());
}

}  // namespace brevis::tools
