// SPDX-License-Identifier: Apache-2.0
//
// brevis: everything about archives but packing and mounting. This file is the table of subcommands; each is a file
// cmd_NAME.cc of its own.
#include <cstdio>
#include <cstring>

#include "brevis/version.h"
#include "commands.h"
#include "output.h"

namespace brevis::tools {
namespace {

constexpr CommandRow kCommands[] = {
    {"ls", nullptr, "files, or a file's tensors, with sizes and ratios", cmd_ls},
    {"inspect", nullptr, "verdict, digests, programs and bytes by codec", cmd_inspect},
    {"fsck", "verify", "check every checksum and digest", cmd_fsck},
    {"extract", nullptr, "the original files, from an archive or a tree", cmd_extract},
    {"cat", nullptr, "bytes of the original file to standard output", cmd_cat},
    {"diff", nullptr, "tensors added, removed and changed", cmd_diff},
    {"bench", nullptr, "speed in memory, beside memcpy and zstd", cmd_bench},
    {"cache", nullptr, "a mount's cache on disk: list, empty, check", cmd_cache},
    {"stats", nullptr, "what the daemon of a mount has done so far", cmd_stats},
    {"add", nullptr, "files into the tree under a mount", cmd_add},
    {"remove", nullptr, "files out of the tree under a mount", cmd_remove},
    {"replace", nullptr, "files in the tree under a mount by newer ones", cmd_replace},
    {"warm", nullptr, "files of a mount into memory", cmd_warm},
};

void print_help(std::FILE* out) {
  std::fputs(
      "usage: brevis COMMAND [options] ...\n\nLists, checks and unpacks Brevis archives of model files.\n\ncommands:\n",
      out);
  for (const CommandRow& row : kCommands) {
    const std::string names = row.alias ? std::string(row.name) + ", " + row.alias : row.name;
    std::fprintf(out, "  %-16s%s\n", names.c_str(), row.summary);
  }
  std::fputs(
      "\noptions:\n  -h, --help      show this help; brevis COMMAND --help for a command's\n"
      "      --version   show the version\n\n"
      "See also brevis-pack, which makes archives, and brevis-mount, which serves them.\n",
      out);
}

int dispatch(int argc, char** argv) {
  const char* const word = argc > 1 ? argv[1] : nullptr;
  if (word == nullptr) return print_help(stderr), kExitUsage;
  if (std::strcmp(word, "--help") == 0 || std::strcmp(word, "-h") == 0) return print_help(stdout), kExitFine;
  if (std::strcmp(word, "--version") == 0) return std::printf("brevis %s\n", BREVIS_VERSION), kExitFine;
  for (const CommandRow& row : kCommands)
    if (std::strcmp(word, row.name) == 0 || (row.alias && std::strcmp(word, row.alias) == 0))
      return row.run(argc - 1, argv + 1);
  print_error(std::string("no command '") + word + "' (see brevis --help)");
  return kExitUsage;
}

}  // namespace
}  // namespace brevis::tools

int main(int argc, char** argv) {
  using namespace brevis::tools;
  set_program_name("brevis");
  return run_guarded([&] { return dispatch(argc, argv); });
}
