// SPDX-License-Identifier: Apache-2.0
//
// Decoding in memory, frame checksums included, of seeded Gaussian weights by known-good programs: node by node in
// scalar code and fused at every level this CPU has, against memcpy into warm buffers. All ways take turns in one run;
// medians. Times are CPU times of the one thread, which is pinned, so that a busy machine disturbs them less; trust the
// ratios, not the gigabytes.
//
//   bench_decode [MEGABYTES [RUNS]]
#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/checksum.h"
#include "bits/kernels.h"
#include "support/bound.h"
#include "support/weights.h"

using namespace brevis;

namespace {

double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Subject {
  const char* name;
  Dtype dtype;
  unsigned width;
  const char* program;
};

const Subject kSubjects[] = {
    {"BF16 k=0", Dtype::BF16, 16,
     "merge(1, 8, 7; literal(packed), rank(15; literal(alias), literal(packed), literal(packed)), literal(packed))"},
    {"BF16 k=1", Dtype::BF16, 16,
     "merge(1, 9, 6; literal(packed), rank(31; literal(alias), literal(packed), literal(packed)), literal(packed))"},
    {"BF16 k=2", Dtype::BF16, 16,
     "merge(1, 10, 5; literal(packed), rank(63; literal(alias), literal(packed), literal(packed)), literal(packed))"},
    {"F16 k=1", Dtype::F16, 16, "merge(1, 6, 9; literal(packed), literal(alias), literal(packed))"},
    {"F16 k=2", Dtype::F16, 16,
     "merge(1, 7, 8; literal(packed), rank(63; literal(alias), literal(packed), literal(packed)), literal(packed))"},
    {"F32 k=2", Dtype::F32, 32,
     "merge(1, 10, 21; literal(packed), rank(63; literal(alias), literal(packed), literal(packed)), literal(packed))"},
    {"F8_E4M3", Dtype::F8_E4M3, 8, "merge(1, 6, 1; literal(packed), literal(alias), literal(packed))"},
    {"F8_E4M3 r", Dtype::F8_E4M3, 8, "literal(rans)"},
    {"I8", Dtype::I8, 8, "literal(rans)"},
    {"I8 zstd", Dtype::I8, 8, "literal(zstd)"},
};

struct Frame {
  uint64_t first, words;
  ByteVector stored;
  uint64_t checksum;
};

struct Way {
  std::string name;
  const bits::Kernels* kernels = nullptr;  // null: memcpy
  bool fuse = true;
  std::vector<double> times{};
};

double median(std::vector<double> times) {
  std::nth_element(times.begin(), times.begin() + static_cast<ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

void check(bool good, const char* what) {
  if (good) return;
  std::fprintf(stderr, "%s\n", what);
  std::exit(1);
}

void run(const Subject& subject, size_t bytes, int runs) {
  const unsigned word_bytes = subject.width / 8;
  const ByteVector original = subject.dtype == Dtype::F8_E4M3 || subject.dtype == Dtype::I8
                                  ? test::channel_words(subject.dtype, bytes / word_bytes / 1024, 1024, 1)
                                  : test::gaussian_words(subject.dtype, bytes / word_bytes, 1);
  const auto program = test::program_of(test::typed(subject.width, subject.program));
  const uint64_t frame_words = dsl::default_frame_words(*program, program->regions()[0], 512 << 10);
  const bits::ConstWords words{original.data(), original.size() / word_bytes, static_cast<uint8_t>(subject.width)};
  const uint64_t frames = (words.count + frame_words - 1) / frame_words;
  const auto part = [&](uint64_t i) {
    return words.part(i * frame_words, std::min<uint64_t>(frame_words, words.count - i * frame_words));
  };
  const auto tables = test::must(
      dsl::train(*program, 0, frames, frame_words, [&](uint64_t i) { return Result<bits::ConstWords>(part(i)); }));
  if (!tables) {
    std::printf("%-10s does not suit its data\n", subject.name);
    return;
  }
  const auto fused = test::bind_stored(program, *tables), plain = test::bind_stored(program, *tables, false);
  std::vector<Frame> stored;
  size_t packed = 0;
  for (uint64_t i = 0; i < frames; ++i) {
    auto bytes_of = test::encode(*fused, part(i), i * frame_words);
    check(bytes_of.has_value(), "a frame cannot be encoded");
    packed += bytes_of->size();
    const uint64_t checksum = xxh3_64(*bytes_of);
    stored.push_back({i * frame_words, part(i).count, std::move(*bytes_of), checksum});
  }
  std::vector<Way> ways{{"memcpy"}, {"nodes scalar", &bits::all_kernels().front(), false}};
  for (const bits::Kernels& table : bits::all_kernels()) {
    if (&table == &bits::all_kernels().back()) ways.push_back({"nodes " + std::string(table.name), &table, false});
    ways.push_back({"fused " + std::string(table.name), &table, true});
  }
  ByteVector out(original.size());
  Arena arena;
  for (int i = 0; i < runs; ++i)
    for (Way& way : ways) {
      const double start = now();
      if (way.kernels == nullptr) {
        std::memcpy(out.data(), original.data(), original.size());
      } else {
        bits::use_kernels(*way.kernels);
        for (const Frame& frame : stored) {
          check(xxh3_64(frame.stored) == frame.checksum, "a checksum differs");
          const MutByteSpan to = MutByteSpan(out).subspan(frame.first * word_bytes, frame.words * word_bytes);
          test::must(dsl::decode_frame(way.fuse ? *fused : *plain, 0, frame.first, frame.stored, to, arena));
        }
      }
      way.times.push_back(now() - start);
      if (i == 0) {
        check(out == original, "decoded words differ");
        std::fill(out.begin(), out.end(), uint8_t{0});
      }
    }
  const double copy = median(ways[0].times);
  std::printf("%-10s %6.3f bits/word |", subject.name,
              8.0 * static_cast<double>(packed) / static_cast<double>(words.count));
  for (const Way& way : ways) {
    const double time = median(way.times);
    std::printf(" %s %.2f GB/s %.3f |", way.name.c_str(), static_cast<double>(original.size()) / time / 1e9,
                copy / time);
  }
  std::printf("\n");
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(sched_getcpu(), &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
  const size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 16;
  const int runs = argc > 2 ? std::atoi(argv[2]) : 11;
  for (const Subject& subject : kSubjects)
    if (argc < 4 || std::strstr(subject.name, argv[3]) != nullptr)
      run(subject, std::max<size_t>(1, megabytes) << 20, std::max(1, runs));
}
