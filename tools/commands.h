// SPDX-License-Identifier: Apache-2.0
//
// The subcommands of `brevis`, one file each. Each takes its own argv (argv[0] is its name) and gives the exit code.
#pragma once

namespace brevis::tools {

// A row of the table in brevis.cc.
struct CommandRow {
  const char* name;
  const char* alias;  // or nullptr
  const char* summary;
  int (*run)(int argc, char** argv);
};

int cmd_ls(int argc, char** argv);
int cmd_inspect(int argc, char** argv);
int cmd_fsck(int argc, char** argv);
int cmd_extract(int argc, char** argv);
int cmd_cat(int argc, char** argv);
int cmd_diff(int argc, char** argv);
int cmd_bench(int argc, char** argv);
int cmd_cache(int argc, char** argv);
int cmd_stats(int argc, char** argv);
int cmd_add(int argc, char** argv);
int cmd_remove(int argc, char** argv);
int cmd_replace(int argc, char** argv);
int cmd_warm(int argc, char** argv);

}  // namespace brevis::tools
