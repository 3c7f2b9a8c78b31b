// SPDX-License-Identifier: Apache-2.0
//
// brevis diff: what differs between two models, tensor by tensor. Exit 0 when every byte of the original files is the
// same, 1 when not.
#include <cstdio>

#include "brevis/diff.h"
#include "command.h"
#include "commands.h"
#include "files.h"
#include "json_output.h"
#include "output.h"
#include "sizes.h"

namespace brevis::tools {
namespace {

constexpr const char* kKinds[] = {"added", "removed", "changed", "retyped"};
constexpr char kMarks[] = {'+', '-', '~', '!'};

void print_change(const TensorChange& change) {
  const std::string name = printable(change.name);
  const auto kind = static_cast<size_t>(change.kind);
  std::printf("%c %s  ", kMarks[kind], name.c_str());
  switch (change.kind) {
    case ChangeKind::added: std::printf("%s\n", printable(change.after).c_str()); break;
    case ChangeKind::removed: std::printf("%s\n", printable(change.before).c_str()); break;
    case ChangeKind::changed:
      std::printf("%s: %s of %s bytes differ\n", printable(change.after).c_str(),
                  grouped(change.differing_bytes).c_str(), grouped(change.bytes).c_str());
      break;
    case ChangeKind::retyped:
      std::printf("%s -> %s\n", printable(change.before).c_str(), printable(change.after).c_str());
      break;
  }
}

void print_diff_json(const DiffReport& difference) {
  Json document = json_document();
  document.update({{"identical", difference.identical_files},
                   {"same_tensors", difference.same_tensors},
                   {"metadata_differs", difference.metadata_differs}});
  if (!difference.relation.empty()) document["relation"] = difference.relation;
  document["changes"] = Json::array();
  for (const TensorChange& change : difference.changes) {
    Json one = {{"change", kKinds[static_cast<size_t>(change.kind)]}, {"name", change.name}};
    if (!change.before.empty()) one["before"] = change.before;
    if (!change.after.empty()) one["after"] = change.after;
    if (change.kind == ChangeKind::changed)
      one.update({{"differing_bytes", change.differing_bytes}, {"bytes", change.bytes}});
    document["changes"].push_back(std::move(one));
  }
  print_json(document);
}

}  // namespace

int cmd_diff(int argc, char** argv) {
  CommandLine line("brevis diff", "[options] A B",
                   "Compares two models, each an archive or a safetensors file. Exit 0 when the original files are the "
                   "same in every byte, 1 when they differ.");
  std::string a, b;
  line.app().add_option("a", a, "archive or safetensors file")->required();
  line.app().add_option("b", b, "archive or safetensors file")->required();
  std::vector<std::string> base_paths;
  line.add_base_paths(base_paths);
  line.add_json();
  if (const auto code = line.parse(argc, argv)) return *code;
  for (const std::string& side : {a, b})
    if (const Status model = require_model(side); !model) return report(model.error(), line.json());
  const auto difference = diff(a, b, base_paths);
  if (!difference) return report(difference.error(), line.json());
  if (line.json()) {
    print_diff_json(*difference);
  } else if (!line.quiet()) {
    for (const TensorChange& change : difference->changes) print_change(change);
    if (!difference->relation.empty()) std::printf("%s\n", difference->relation.c_str());
    if (difference->metadata_differs) std::printf("! metadata differs\n");
    std::printf("%s the same, %zu differ; the files %s\n", counted(difference->same_tensors, "tensor").c_str(),
                difference->changes.size(), difference->identical_files ? "are identical" : "are not identical");
  }
  return difference->same() ? kExitFine : kExitDifferent;
}

}  // namespace brevis::tools
