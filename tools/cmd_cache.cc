// SPDX-License-Identifier: Apache-2.0
//
// brevis cache: what the cache on disk of a mount holds, whether all of it is right, and its end. Exit 1 when verify
// finds wrong frames (which no mount would serve).
#include <cstdio>

#include "brevis/cache_admin.h"
#include "command.h"
#include "commands.h"
#include "json_output.h"
#include "output.h"
#include "sizes.h"

namespace brevis::tools {
namespace {

int list(const std::string& directory, const CommandLine& line) {
  const auto found = report_cache(directory);
  if (!found) return report(found.error(), line.json());
  if (line.json()) {
    Json document = json_document();
    document.update({{"frames", found->frames},
                     {"bytes", found->bytes},
                     {"disk_bytes", found->disk_bytes},
                     {"in_use", found->in_use}});
    document["archives"] = Json::array();
    for (const CachedArchive& archive : found->archives)
      document["archives"].push_back(
          {{"name", to_hex(archive.name)}, {"frames", archive.frames}, {"bytes", archive.bytes}});
    print_json(document);
    return kExitFine;
  }
  for (const CachedArchive& archive : found->archives)
    std::printf("%s  %s, %s\n", to_hex(archive.name).c_str(), counted(archive.frames, "frame").c_str(),
                human_size(archive.bytes).c_str());
  std::printf("%s of %s: %s decoded, %s on disk%s\n", counted(found->frames, "frame").c_str(),
              counted(found->archives.size(), "archive").c_str(), human_size(found->bytes).c_str(),
              human_size(found->disk_bytes).c_str(), found->in_use ? "; in use by a mount" : "");
  return kExitFine;
}

int clear(const std::string& directory, const CommandLine& line) {
  if (const Status cleared = clear_cache(directory); !cleared) return report(cleared.error(), line.json());
  if (line.json()) print_json(json_document());
  return kExitFine;
}

int verify(const std::string& directory, const CommandLine& line) {
  const auto check = verify_cache(directory);
  if (!check) return report(check.error(), line.json());
  if (line.json()) {
    Json document = json_document();
    document.update({{"frames", check->frames}, {"bytes", check->bytes}, {"wrong", check->wrong}});
    print_json(document);
  } else if (!line.quiet()) {
    std::printf("%s, %s: %s wrong\n", counted(check->frames, "frame").c_str(), human_size(check->bytes).c_str(),
                grouped(check->wrong).c_str());
  }
  return check->wrong == 0 ? kExitFine : kExitDifferent;
}

}  // namespace

int cmd_cache(int argc, char** argv) {
  CommandLine line("brevis cache", "[options] ls|clear|verify DIR",
                   "The cache on disk of a mount (brevis-mount --cache-dir): lists what it holds, empties it, or reads "
                   "and checks every frame. A cache that a mount uses can be listed only.");
  std::string action, directory;
  line.app()
      .add_option("action", action, "ls, clear or verify")
      ->required()
      ->check(CLI::IsMember({"ls", "clear", "verify"}));
  line.app().add_option("directory", directory, "the cache's directory")->required();
  line.add_json();
  if (const auto code = line.parse(argc, argv)) return *code;
  if (action == "ls") return list(directory, line);
  return action == "clear" ? clear(directory, line) : verify(directory, line);
}

}  // namespace brevis::tools
