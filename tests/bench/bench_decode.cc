// SPDX-License-Identifier: Apache-2.0
//
// Decoding (and then encoding) in memory, frame checksums included, of seeded Gaussian weights by known-good programs:
// node by node in scalar code and fused at every level this CPU has, against memcpy into warm buffers. All ways take
// turns in one run; medians. Times are CPU times of the one thread, which is pinned, so that a busy machine disturbs
// them less; trust the ratios, not the gigabytes.
//
//   bench_decode [MEGABYTES [RUNS [SUBJECT]]]
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
    {"BF16 huffman", Dtype::BF16, 16, "merge(1, 11, 4; literal(packed), literal(huffman), literal(packed))"},
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

// A subject's words and frames.
struct Packed {
  ByteVector original;
  unsigned word_bytes = 0;
  std::shared_ptr<const dsl::BoundProgram> fused, plain;
  std::vector<Frame> frames;
  size_t bytes = 0;

  bits::ConstWords words(const Frame& frame) const {
    return {original.data() + frame.first * word_bytes, frame.words, static_cast<uint8_t>(8 * word_bytes)};
  }
  ByteVector joined() const {
    ByteVector all;
    for (const Frame& frame : frames) all.insert(all.end(), frame.stored.begin(), frame.stored.end());
    return all;
  }
};

Packed pack(const Subject& subject, size_t bytes) {
  Packed out;
  out.word_bytes = subject.width / 8;
  const size_t count = bytes / out.word_bytes;
  out.original = subject.dtype == Dtype::F8_E4M3 || subject.dtype == Dtype::I8
                     ? test::channel_words(subject.dtype, count / 1024, 1024, 1)
                     : test::gaussian_words(subject.dtype, count, 1);
  const auto program = test::program_of(test::typed(subject.width, subject.program));
  const uint64_t frame_words = dsl::default_frame_words(*program, program->regions()[0], 512 << 10);
  for (uint64_t first = 0; first < count; first += frame_words)
    out.frames.push_back({first, std::min(frame_words, count - first), {}, 0});
  const auto tables = test::must(dsl::train(*program, 0, out.frames.size(), frame_words, [&](uint64_t i) {
    return Result<bits::ConstWords>(out.words(out.frames[i]));
  }));
  if (!tables) {
    std::printf("%-10s does not suit its data\n", subject.name);
    return out;
  }
  out.fused = test::bind_stored(program, *tables);
  out.plain = test::bind_stored(program, *tables, false);
  for (Frame& frame : out.frames) {
    auto stored = test::encode(*out.fused, out.words(frame), frame.first);
    check(stored.has_value(), "a frame cannot be encoded");
    frame.stored = std::move(*stored);
    frame.checksum = xxh3_64(frame.stored);
    out.bytes += frame.stored.size();
  }
  return out;
}

void report(const Subject& subject, const Packed& packed, const std::vector<Way>& ways) {
  const double copy = median(ways[0].times), size = static_cast<double>(packed.original.size());
  std::printf("%-12s %6.3f bits/word |", subject.name,
              8.0 * static_cast<double>(packed.bytes) * packed.word_bytes / size);
  for (const Way& way : ways) {
    const double time = median(way.times);
    std::printf(" %s %.2f GB/s %.3f |", way.name.c_str(), size / time / 1e9, copy / time);
  }
  std::printf("\n");
  std::fflush(stdout);
}

void run_decode(const Subject& subject, size_t bytes, int runs) {
  const Packed packed = pack(subject, bytes);
  if (!packed.fused) return;
  std::vector<Way> ways{{"memcpy"}, {"nodes scalar", &bits::all_kernels().front(), false}};
  for (const bits::Kernels& table : bits::all_kernels()) {
    if (&table == &bits::all_kernels().back()) ways.push_back({"nodes " + table.full_name(), &table, false});
    ways.push_back({"fused " + table.full_name(), &table, true});
  }
  ByteVector out(packed.original.size());
  Arena arena;
  for (int i = 0; i < runs; ++i)
    for (Way& way : ways) {
      const double start = now();
      if (way.kernels == nullptr) {
        std::memcpy(out.data(), packed.original.data(), packed.original.size());
      } else {
        bits::use_kernels(*way.kernels);
        for (const Frame& frame : packed.frames) {
          check(xxh3_64(frame.stored) == frame.checksum, "a checksum differs");
          const MutByteSpan to =
              MutByteSpan(out).subspan(frame.first * packed.word_bytes, frame.words * packed.word_bytes);
          test::must(
              dsl::decode_frame(way.fuse ? *packed.fused : *packed.plain, 0, frame.first, frame.stored, to, arena));
        }
      }
      way.times.push_back(now() - start);
      if (i == 0) {
        check(out == packed.original, "decoded words differ");
        std::fill(out.begin(), out.end(), uint8_t{0});
      }
    }
  report(subject, packed, ways);
}

// Encoding of all frames, by level.
void run_encode(const Subject& subject, size_t bytes, int runs) {
  const Packed packed = pack(subject, bytes);
  if (!packed.fused) return;
  std::vector<Way> ways{{"memcpy"}};
  for (const bits::Kernels& table : bits::all_kernels()) ways.push_back({table.full_name(), &table});
  ByteVector out(packed.original.size() + (1 << 20));
  for (int i = 0; i < runs; ++i)
    for (Way& way : ways) {
      const double start = now();
      if (way.kernels == nullptr) {
        std::memcpy(out.data(), packed.original.data(), packed.original.size());
      } else {
        bits::use_kernels(*way.kernels);
        out.clear();
        for (const Frame& frame : packed.frames)
          check(test::must(dsl::encode_frame(*packed.fused, 0, frame.first, packed.words(frame), out)), "not encoded");
      }
      way.times.push_back(now() - start);
      if (i == 0 && way.kernels != nullptr) check(out == packed.joined(), "encoded bytes differ");
      out.resize(packed.original.size());
    }
  report(subject, packed, ways);
}

}  // namespace

int main(int argc, char** argv) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(sched_getcpu(), &cpus);
  sched_setaffinity(0, sizeof cpus, &cpus);
  const size_t megabytes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 16;
  const int runs = argc > 2 ? std::atoi(argv[2]) : 11;
  const size_t bytes = std::max<size_t>(1, megabytes) << 20;
  for (const bool encode : {false, true}) {
    std::printf("%s, %zu MiB\n", encode ? "encode" : "decode", bytes >> 20);
    for (const Subject& subject : kSubjects) {
      if (argc > 3 && std::strstr(subject.name, argv[3]) == nullptr) continue;
      (encode ? run_encode : run_decode)(subject, bytes, std::max(1, runs));
    }
  }
}
