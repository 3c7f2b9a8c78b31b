// SPDX-License-Identifier: Apache-2.0
//
// Reads a file in one of the ways that loaders do and prints the seconds it took; the page cache is emptied of it
// before, unless told otherwise. For tests/bench/bench_mount.py.
//
//   mount_reader MODE FILE [warm]
//     read      1 MiB at a time into one buffer
//     map       mapped, copied out MiB by MiB, rising
//     map-back  the same, falling
//     slices    mapped, copied in pieces of 64 MiB into fresh memory, as Python's mmap[a:b] does
//     random    20,000 reads of 4 KiB at random places of the file; prints the median and the 99th percentile in µs
//
// Errors: said on stderr, exit 1. Threads: one.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

constexpr size_t kMiB = size_t{1} << 20;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point began) { return std::chrono::duration<double>(Clock::now() - began).count(); }

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

void read_all(int fd, size_t size, std::vector<uint8_t>& buffer) {
  for (size_t at = 0; at < size;) {
    const ssize_t got = pread(fd, buffer.data(), kMiB, static_cast<off_t>(at));
    if (got <= 0) fail("pread");
    at += static_cast<size_t>(got);
  }
}

void copy_mapped(const uint8_t* map, size_t size, bool falling, std::vector<uint8_t>& buffer) {
  const size_t pieces = (size + kMiB - 1) / kMiB;
  for (size_t i = 0; i < pieces; ++i) {
    const size_t at = (falling ? pieces - 1 - i : i) * kMiB;
    std::memcpy(buffer.data(), map + at, std::min(kMiB, size - at));
  }
}

void copy_slices(const uint8_t* map, size_t size) {
  for (size_t at = 0; at < size; at += 64 * kMiB) {
    const size_t bytes = std::min(64 * kMiB, size - at);
    void* out = std::malloc(bytes);
    if (!out) fail("malloc");
    std::memcpy(out, map + at, bytes);
    // or the copy is left out by the compiler
    asm volatile("" : : "r"(out) : "memory");
    std::free(out);
  }
}

int random_reads(int fd, size_t size) {
  constexpr int kReads = 20000;
  std::mt19937_64 source(7);
  std::vector<double> took;
  std::vector<uint8_t> buffer(4096);
  posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM);
  for (int i = 0; i < kReads; ++i) {
    const size_t at = source() % (size / 4096) * 4096;
    const auto began = Clock::now();
    if (pread(fd, buffer.data(), 4096, static_cast<off_t>(at)) <= 0) fail("pread");
    took.push_back(since(began) * 1e6);
  }
  std::sort(took.begin(), took.end());
  std::printf("%.1f %.1f\n", took[kReads / 2], took[kReads * 99 / 100]);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return std::fputs("usage: mount_reader read|map|map-back|slices|random FILE [warm]\n", stderr), 2;
  const std::string mode = argv[1];
  const int fd = open(argv[2], O_RDONLY);
  struct stat st;
  if (fd < 0 || fstat(fd, &st) != 0) fail(argv[2]);
  const auto size = static_cast<size_t>(st.st_size);
  if (argc == 3) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
  std::vector<uint8_t> buffer(kMiB, 1);
  if (mode == "random") return random_reads(fd, size);
  const uint8_t* map = nullptr;
  if (mode != "read") {
    void* at = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) fail("mmap");
    map = static_cast<const uint8_t*>(at);
  }
  const auto began = Clock::now();
  if (mode == "read")
    read_all(fd, size, buffer);
  else if (mode == "slices")
    copy_slices(map, size);
  else
    copy_mapped(map, size, mode == "map-back", buffer);
  std::printf("%.6f\n", since(began));
  return 0;
}
