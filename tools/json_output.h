// SPDX-License-Identifier: Apache-2.0
//
// What --json prints: one object on one line, with "schema": 1 first. Bytes that are no UTF-8 (file names may hold
// any) become U+FFFD.
//
// Errors:  none. Threads: one.
#pragma once

#include <nlohmann/json.hpp>

#include "brevis/archive.h"
#include "brevis/error.h"
#include "brevis/model.h"

namespace brevis::tools {

using Json = nlohmann::ordered_json;

// {"schema": 1}: every object begins so.
Json json_document();
void print_json(const Json& document);
// {"kind": ..., "message": ...}
Json json_error(const Error& error);
// An Error that ends a command: the message on stderr, with `json` the object too. Gives the exit code.
int report(const Error& error, bool json);

// {"schema": 1, "path": ..., "kind": "archive", sizes, ratio}: how an archive's object begins.
Json json_archive_document(const std::string& path, const ArchiveInfo& info);
// Verdict, first broken rule, metadata: the part that ls and inspect share.
void put_verdict(Json& document, const Verdict& verdict);
// original / packed, null when nothing is packed.
Json json_ratio(uint64_t original, uint64_t packed);

// "[4096,512]".
std::string shape_text(const std::vector<uint64_t>& shape);

}  // namespace brevis::tools
