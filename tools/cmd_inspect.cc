// SPDX-License-Identifier: Apache-2.0
//
// brevis inspect: what a file is and, of an archive, how each tensor is stored: its program as text and its bytes by
// literal.
#include <cstdio>
#include <filesystem>

#include "brevis/archive.h"
#include "command.h"
#include "commands.h"
#include "json_output.h"
#include "output.h"
#include "sizes.h"
#include "trace.h"

namespace brevis::tools {
namespace {

struct Described {
  ArchiveSpan span;
  std::string name;  // of the tensor, or "(header)", "(bytes 10..20)"
  std::optional<Explanation> explanation;
};

std::string name_of(const ArchiveSpan& span) {
  switch (span.kind) {
    case SpanKind::tensor: return span.tensor.name;
    case SpanKind::prefix: return "(header)";
    case SpanKind::opaque: break;
  }
  return "(bytes " + std::to_string(span.span.offset) + ".." + std::to_string(span.span.end()) + ")";
}

Result<std::vector<Described>> describe(const Archive& archive, const std::string& tensor) {
  BREVIS_ASSIGN(const std::vector<ArchiveSpan> spans, archive.spans());
  std::vector<Described> out;
  for (const ArchiveSpan& span : spans) {
    const std::string name = name_of(span);
    if (!tensor.empty() && name != tensor) continue;
    Described described{span, name, std::nullopt};
    if (span.span.length != 0) {
      BREVIS_ASSIGN(described.explanation, archive.explain(span));
    }
    out.push_back(std::move(described));
  }
  if (out.empty() && !tensor.empty())
    return make_error(Errc::not_found, "'" + archive.path() + "' holds no tensor '" + tensor + "'");
  return out;
}

double bits_per_word(uint64_t bytes, uint64_t words) {
  return words == 0 ? 0 : 8.0 * static_cast<double>(bytes) / static_cast<double>(words);
}

Json json_described(const Described& described) {
  const ArchiveSpan& span = described.span;
  constexpr const char* kKinds[] = {"header", "tensor", "opaque"};
  Json out = {{"name", described.name}, {"kind", kKinds[static_cast<size_t>(span.kind)]}};
  if (span.kind == SpanKind::tensor) out.update({{"dtype", span.tensor.dtype_name}, {"shape", span.tensor.shape}});
  out.update({{"offset", span.span.offset},
              {"bytes", span.span.length},
              {"packed_bytes", span.packed_bytes},
              {"ratio", json_ratio(span.span.length, span.packed_bytes)},
              {"xxh3_128", to_hex(span.digest)},
              {"bundled", span.bundled},
              {"duplicate", span.duplicate},
              {"on_base", span.on_base}});
  if (!described.explanation) return out;
  const Explanation& how = *described.explanation;
  Json leaves = Json::array();
  for (const LeafUse& leaf : how.leaves)
    leaves.push_back({{"leaf", leaf.path}, {"word_bits", leaf.width}, {"bytes", leaf.bytes}});
  out.update({{"program", how.program},
              {"words", how.words},
              {"frames", how.frames},
              {"record_bytes", how.record_bytes},
              {"frame_overhead_bytes", how.frame_overhead_bytes},
              {"tables", how.tables},
              {"table_bytes", how.table_bytes},
              {"leaves", std::move(leaves)}});
  return out;
}

void print_described(const Described& described) {
  const ArchiveSpan& span = described.span;
  std::string title = printable(described.name);
  if (span.kind == SpanKind::tensor)
    title += "  " + printable(span.tensor.dtype_name) + " " + shape_text(span.tensor.shape);
  std::printf("\n%s\n", title.c_str());
  std::printf("  bytes    %s -> %s, ratio %s%s%s\n", grouped(span.span.length).c_str(),
              grouped(span.packed_bytes).c_str(), ratio_text(span.span.length, span.packed_bytes).c_str(),
              span.bundled ? ", in a bundle" : "", span.duplicate ? ", a duplicate stored elsewhere" : "");
  std::printf("  xxh3     %s%s\n", to_hex(span.digest).c_str(), span.bundled ? " (of the bundle)" : "");
  if (!described.explanation) return;
  const Explanation& how = *described.explanation;
  std::printf("  program  %s\n", printable(how.program).c_str());
  std::printf("  words    %s in %s; overhead %s bytes\n", grouped(how.words).c_str(),
              counted(how.frames, "frame").c_str(), grouped(how.frame_overhead_bytes).c_str());
  if (!how.bases.empty()) std::printf("  bases    %s\n", counted(how.bases.size(), "archive").c_str());
  if (!how.tables.empty())
    std::printf("  tables   %zu of the pool, %s bytes\n", how.tables.size(), grouped(how.table_bytes).c_str());
  for (const LeafUse& leaf : how.leaves) {
    std::printf("  leaf     %-36s u%-3u %15s bytes  %6.3f bits a word\n", printable(leaf.path).c_str(), leaf.width,
                grouped(leaf.bytes).c_str(), bits_per_word(leaf.bytes, how.words));
  }
}

void print_verdict(const Verdict& verdict) {
  std::printf("verdict    %s\n", std::string(verdict_name(verdict.kind)).c_str());
  if (!verdict.looks_like.empty()) std::printf("looks like %s\n", printable(verdict.looks_like).c_str());
  if (!verdict.reason.empty())
    std::printf("reason     %s (file byte %s)\n", printable(verdict.reason).c_str(),
                grouped(verdict.reason_offset).c_str());
  if (verdict.trailing_bytes != 0) std::printf("trailing   %s bytes\n", grouped(verdict.trailing_bytes).c_str());
  for (const auto& [key, value] : verdict.metadata) {
    std::string text = printable(key + " = " + value);
    if (text.size() > 200) text = text.substr(0, 197) + "...";
    std::printf("metadata   %s\n", text.c_str());
  }
}

void print_archive(const ArchiveInfo& info) {
  std::printf("archive    version %u, id %s\n", info.version, to_hex(info.id).c_str());
  std::printf("bytes      %s -> %s, ratio %s\n", grouped(info.original_size).c_str(),
              grouped(info.archive_size).c_str(), ratio_text(info.original_size, info.archive_size).c_str());
  std::printf("sha256     %s\n", info.sha256 ? to_hex(*info.sha256).c_str() : "not recorded");
  std::printf("index      %s bytes; %zu segments, %zu records, %zu frames, %zu programs, %zu tables of %s bytes\n",
              grouped(info.index_bytes).c_str(), info.segments, info.records, info.frames, info.programs, info.tables,
              grouped(info.table_bytes).c_str());
  for (const ArchiveBase& base : info.bases)
    std::printf("base       id %s, %s bytes, %s\n", to_hex(base.id).c_str(), grouped(base.original_size).c_str(),
                base.hint.empty() ? "place not recorded" : printable(base.hint).c_str());
  for (const auto& [key, value] : info.provenance)
    std::printf("provenance %s = %s\n", printable(key).c_str(), printable(value).c_str());
}

Json json_archive(const ArchiveInfo& info) {
  Json out = {{"version", info.version}, {"id", to_hex(info.id)}};
  out["sha256"] = info.sha256 ? Json(to_hex(*info.sha256)) : Json(nullptr);
  Json bases = Json::array();
  for (const ArchiveBase& base : info.bases)
    bases.push_back(
        {{"id", to_hex(base.id)}, {"hint", base.hint}, {"bytes", base.original_size}, {"depth", base.depth}});
  if (!bases.empty()) out["bases"] = std::move(bases);
  Json provenance = Json::object();
  for (const auto& [key, value] : info.provenance) provenance[key] = value;
  out.update({{"provenance", std::move(provenance)},
              {"index_bytes", info.index_bytes},
              {"segments", info.segments},
              {"records", info.records},
              {"frames", info.frames},
              {"programs", info.programs},
              {"tables", info.tables},
              {"table_bytes", info.table_bytes}});
  return out;
}

Status inspect_archive(const std::string& path, const std::string& tensor, bool json) {
  BREVIS_ASSIGN(const std::shared_ptr<const Archive> archive, Archive::open(path));
  BREVIS_ASSIGN(const Verdict verdict, archive->verdict());
  BREVIS_ASSIGN(const std::vector<Described> all, describe(*archive, tensor));
  const ArchiveInfo& info = archive->info();
  if (json) {
    Json document = json_archive_document(path, info);
    put_verdict(document, verdict);
    document["archive"] = json_archive(info);
    document["spans"] = Json::array();
    for (const Described& described : all) document["spans"].push_back(json_described(described));
    print_json(document);
    return {};
  }
  std::printf("file       %s\n", printable(path).c_str());
  if (tensor.empty()) {
    print_archive(info);
    print_verdict(verdict);
  }
  for (const Described& described : all) print_described(described);
  return {};
}

Status inspect_plain(const std::string& path, const std::string& tensor, bool json) {
  BREVIS_ASSIGN(const Verdict verdict, examine_file(path));
  Json tensors = Json::array();
  if (!json) {
    std::printf("file       %s\n", printable(path).c_str());
    print_verdict(verdict);
  }
  size_t shown = 0;
  for (const TensorInfo& info : verdict.tensors) {
    if (!tensor.empty() && info.name != tensor) continue;
    ++shown;
    if (json) {
      tensors.push_back({{"name", info.name},
                         {"dtype", info.dtype_name},
                         {"shape", info.shape},
                         {"offset", info.span.offset},
                         {"bytes", info.span.length}});
    } else {
      std::printf("tensor     %s  %s %s, %s bytes at %s\n", printable(info.name).c_str(),
                  printable(info.dtype_name).c_str(), shape_text(info.shape).c_str(), grouped(info.span.length).c_str(),
                  grouped(info.span.offset).c_str());
    }
  }
  if (shown == 0 && !tensor.empty())
    return make_error(Errc::not_found, "'" + path + "' holds no tensor '" + tensor + "'");
  if (!json) return {};
  Json document = json_document();
  const bool other = verdict.kind == VerdictKind::not_safetensors;
  document.update({{"path", path}, {"kind", other ? "file" : "safetensors"}});
  put_verdict(document, verdict);
  document["spans"] = std::move(tensors);
  print_json(document);
  return {};
}

}  // namespace

int cmd_inspect(int argc, char** argv) {
  CommandLine line(
      "brevis inspect", "[options] FILE [TENSOR]",
      "Says what FILE is: verdict and first broken rule, digests, provenance; of an archive also, for each "
      "tensor (or only TENSOR), the program that stores it and its bytes by literal and codec.");
  std::string path, tensor;
  bool trace = false;
  line.app().add_option("file", path, "archive or any other file")->required();
  line.app().add_option("tensor", tensor, "only this tensor");
  line.app().add_flag("--trace", trace, "search for programs again and show what the search did");
  line.add_json();
  if (const auto code = line.parse(argc, argv)) return *code;
  const auto archive = peek_archive(path);
  if (!archive) return report(archive.error(), line.json());
  if (trace) {
    const Status traced = trace_file(path, archive->has_value(), tensor, line.json());
    return traced ? kExitFine : report(traced.error(), line.json());
  }
  const Status done = *archive ? inspect_archive(path, tensor, line.json()) : inspect_plain(path, tensor, line.json());
  return done ? kExitFine : report(done.error(), line.json());
}

}  // namespace brevis::tools
