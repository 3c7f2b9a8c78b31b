// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "base/memory.h"
#include "support/temp_dir.h"

using namespace brevis;
using test::TempDir;
using test::write_file;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

std::string mib(uint64_t n) { return std::to_string(n * kMiB) + "\n"; }

}  // namespace

TEST_CASE("memory: the machine's, where no group says less") {
  TempDir root;
  CHECK(memory_state(root.path()).total == UINT64_MAX);
  write_file(root / "proc/meminfo", "MemTotal:       8192 kB\nMemFree:  1 kB\nMemAvailable:   4096 kB\n");
  write_file(root / "proc/self/cgroup", "0::/\n");
  CHECK(memory_state(root.path()).total == 8 * kMiB);
  CHECK(memory_state(root.path()).available == 4 * kMiB);
  CHECK(memory_state().available < UINT64_MAX);  // of this machine
}

TEST_CASE("memory: limits of the group and of those above it") {
  TempDir root;
  write_file(root / "proc/meminfo", "MemTotal:  1048576 kB\nMemAvailable:  1048576 kB\n");
  write_file(root / "proc/self/cgroup", "1:name=x:/\n0::/a/b\n");
  const std::string top = root / "sys/fs/cgroup";
  write_file(top + "/a/b/memory.max", "max\n");
  write_file(top + "/a/b/memory.current", mib(10));
  write_file(top + "/a/memory.max", mib(100));
  write_file(top + "/a/memory.current", mib(90));
  write_file(top + "/a/memory.stat",
             "anon 5\nfile 999999999\n" + ("inactive_file " + mib(20)) + "active_file " + mib(2));
  CHECK(memory_state(root.path()).total == 100 * kMiB);
  CHECK(memory_state(root.path()).available == 32 * kMiB);
  write_file(top + "/a/b/memory.max", mib(12));
  CHECK(memory_state(root.path()).available == 2 * kMiB);
  write_file(top + "/a/b/memory.current", mib(13));
  CHECK(memory_state(root.path()).available == 0);
}

TEST_CASE("memory: groups of the older kind, whose path is not there in a container") {
  TempDir root;
  write_file(root / "proc/meminfo", "MemTotal:  1048576 kB\nMemAvailable:  1048576 kB\n");
  write_file(root / "proc/self/cgroup", "12:cpu:/x\n4:memory:/docker/abc\n0::/\n");
  const std::string top = root / "sys/fs/cgroup/memory";
  write_file(top + "/memory.limit_in_bytes", mib(64));
  write_file(top + "/memory.usage_in_bytes", mib(60));
  write_file(top + "/memory.stat", "total_inactive_file " + mib(1) + "total_active_file " + mib(3));
  CHECK(memory_state(root.path()).total == 64 * kMiB);
  CHECK(memory_state(root.path()).available == 8 * kMiB);
}
