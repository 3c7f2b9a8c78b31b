// SPDX-License-Identifier: Apache-2.0
//
// Loaded before a program (LD_PRELOAD), makes calls of the operating system behave as they may at their worst.
// BREVIS_TEST_FAULT=short        reads and writes move only part of what was asked for, and are interrupted at times
// BREVIS_TEST_FAULT=CALL:ERRNO:N the N-th CALL (read, write, fsync; with their relatives) and all later ones fail
// Only regular files are concerned. BREVIS_TEST_FAULT_LOG=FILE: the number of calls of each kind is written there.
#undef _FILE_OFFSET_BITS  // both names of each call are defined here
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

enum Call { kRead, kWrite, kSync, kCalls };
constexpr const char* kNames[] = {"read", "write", "fsync"};
std::atomic<long> made[kCalls];

struct Plan {
  bool shorten = false;
  int call = -1, error = 0;
  long from = 0;
  Plan() {
    const char* text = getenv("BREVIS_TEST_FAULT");
    if (text == nullptr) return;
    shorten = std::strcmp(text, "short") == 0;
    for (int i = 0; i < kCalls; ++i) {
      const size_t length = std::strlen(kNames[i]);
      if (std::strncmp(text, kNames[i], length) != 0 || text[length] != ':') continue;
      call = i;
      char* end = nullptr;
      error = static_cast<int>(strtol(text + length + 1, &end, 10));
      from = strtol(end + 1, nullptr, 10);
    }
  }
};

const Plan& plan() {
  static const Plan made_once;
  return made_once;
}

struct Report {
  ~Report() {
    const char* path = getenv("BREVIS_TEST_FAULT_LOG");
    if (path == nullptr) return;
    if (FILE* file = fopen(path, "w")) {
      for (int i = 0; i < kCalls; ++i) fprintf(file, "%s %ld\n", kNames[i], made[i].load());
      fclose(file);
    }
  }
} report;

bool regular(int fd) {
  struct stat st;
  return fstat(fd, &st) == 0 && S_ISREG(st.st_mode);
}

// How many of `count` bytes this call may move; -1 when it fails with errno set.
ssize_t allowed(Call call, int fd, size_t count) {
  if (!regular(fd)) return static_cast<ssize_t>(count);
  const long number = ++made[call];
  if (plan().call == call && number >= plan().from) return errno = plan().error, -1;
  if (!plan().shorten || count == 0) return static_cast<ssize_t>(count);
  if (number % 5 == 0) return errno = EINTR, -1;
  return static_cast<ssize_t>(std::max<size_t>(1, count * static_cast<size_t>(number % 3 + 1) / 4));
}

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t read(int fd, void* out, size_t count) {
  const ssize_t n = allowed(kRead, fd, count);
  return n < 0 ? n : next<ssize_t (*)(int, void*, size_t)>("read")(fd, out, static_cast<size_t>(n));
}
ssize_t pread(int fd, void* out, size_t count, off_t at) {
  const ssize_t n = allowed(kRead, fd, count);
  return n < 0 ? n : next<ssize_t (*)(int, void*, size_t, off_t)>("pread64")(fd, out, static_cast<size_t>(n), at);
}
ssize_t pread64(int fd, void* out, size_t count, off64_t at) { return pread(fd, out, count, at); }
ssize_t write(int fd, const void* data, size_t count) {
  const ssize_t n = allowed(kWrite, fd, count);
  return n < 0 ? n : next<ssize_t (*)(int, const void*, size_t)>("write")(fd, data, static_cast<size_t>(n));
}
ssize_t pwrite(int fd, const void* data, size_t count, off_t at) {
  const ssize_t n = allowed(kWrite, fd, count);
  return n < 0 ? n
               : next<ssize_t (*)(int, const void*, size_t, off_t)>("pwrite64")(fd, data, static_cast<size_t>(n), at);
}
ssize_t pwrite64(int fd, const void* data, size_t count, off64_t at) { return pwrite(fd, data, count, at); }
int fsync(int fd) { return allowed(kSync, fd, 0) < 0 ? -1 : next<int (*)(int)>("fsync")(fd); }
int fdatasync(int fd) { return allowed(kSync, fd, 0) < 0 ? -1 : next<int (*)(int)>("fdatasync")(fd); }

}  // extern "C"
