// SPDX-License-Identifier: Apache-2.0
#include "json_output.h"

#include <cmath>
#include <cstdio>

#include "output.h"
#include "signals.h"

namespace brevis::tools {

Json json_document() { return Json{{"schema", 1}}; }

void print_json(const Json& document) {
  const std::string text = document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  std::fwrite(text.data(), 1, text.size(), stdout);
}

Json json_error(const Error& error) { return {{"kind", errc_name(error.kind())}, {"message", error.message()}}; }

int report(const Error& error, bool json) {
  const int code = report(error);
  if (json) {
    Json document = json_document();
    document["error"] = json_error(error);
    document["exit_code"] = code;
    print_json(document);
  }
  return code;
}

Json json_archive_document(const std::string& path, const ArchiveInfo& info) {
  Json document = json_document();
  document.update({{"path", path},
                   {"kind", "archive"},
                   {"bytes", info.original_size},
                   {"packed_bytes", info.archive_size},
                   {"ratio", json_ratio(info.original_size, info.archive_size)}});
  return document;
}

void put_verdict(Json& document, const Verdict& verdict) {
  document["verdict"] = verdict_name(verdict.kind);
  if (!verdict.reason.empty()) document["reason"] = {{"message", verdict.reason}, {"offset", verdict.reason_offset}};
  if (!verdict.looks_like.empty()) document["looks_like"] = verdict.looks_like;
  if (verdict.kind == VerdictKind::truncated) document["missing_bytes"] = verdict.missing_bytes;
  if (verdict.trailing_bytes != 0) document["trailing_bytes"] = verdict.trailing_bytes;
  if (!verdict.metadata_present) return;
  Json metadata = Json::object();
  for (const auto& [key, value] : verdict.metadata) metadata[key] = value;
  document["metadata"] = std::move(metadata);
}

Json json_ratio(uint64_t original, uint64_t packed) {
  if (original == 0 || packed == 0) return nullptr;
  return std::round(1e4 * static_cast<double>(original) / static_cast<double>(packed)) / 1e4;
}

std::string shape_text(const std::vector<uint64_t>& shape) {
  std::string out = "[";
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != 0) out += ',';
    out += std::to_string(shape[i]);
  }
  out += ']';
  return out;
}

}  // namespace brevis::tools
