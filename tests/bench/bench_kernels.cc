// SPDX-License-Identifier: Apache-2.0
//
// Every kernel by itself at every level that this CPU has, and memcpy beside it, on data that fits the caches: for
// those who change a kernel. Names are KERNEL/WHAT/LEVEL; `words` are words a second of CPU time, `bytes` those of the
// words. Streams of the coding kernels come from the codecs, so that tables and lanes are those of real frames.
//
//   bench_kernels --benchmark_filter=alias_decode --benchmark_repetitions=9 --benchmark_report_aggregates_only=true
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "bits/kernels.h"
#include "codec/alias.h"
#include "codec/lanes.h"
#include "support/words.h"

using namespace brevis;
using bits::Kernels;

namespace {

using Body = void (*)(benchmark::State&, const Kernels&);

void count_words(benchmark::State& state, size_t words, size_t bytes) {
  state.counters["words"] =
      benchmark::Counter(static_cast<double>(words), benchmark::Counter::kIsIterationInvariantRate);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}

template <class Body>
void add(const std::string& name, Body body) {
  for (const Kernels& table : bits::all_kernels())
    benchmark::RegisterBenchmark((name + "/" + table.full_name()).c_str(),
                                 [&table, body](benchmark::State& state) { body(state, table); });
}

// What a codec makes of bell-shaped words.
struct Coded {
  bits::OwnedWords words;
  codec::TablePtr table;
  ByteVector payload;

  Coded(const char* codec_name, unsigned width, size_t count)
      : words(test::make_words(test::Shape::bell, width, count, 1)) {
    const codec::CodecSpec& spec = *codec::find_codec(codec_name);
    table = *spec.load(*spec.train(test::histogram_of(words.view())), width);
    if (!spec.encode(table.get(), words.view(), payload)) std::abort();
  }
};

constexpr size_t kCounts[] = {120000, 32768, 8192, 2048};  // 64, 16, 4 lanes and one

void alias_decode(benchmark::State& state, const Kernels& kernels, size_t count) {
  bits::use_kernels(kernels);  // tables as it wants them
  const Coded coded("alias", 6, count);
  const bits::AliasDecoder decoder = codec::alias_decoder(coded.table.get());
  bits::OwnedWords out(6, count);
  for (auto _ : state) {
    codec::LaneReader reader;
    if (!reader.open(coded.payload, count)) std::abort();
    benchmark::DoNotOptimize(
        kernels.alias_decode(decoder, reader.cursor(), out.words().data, count / reader.cursor().lanes));
    benchmark::ClobberMemory();
  }
  count_words(state, count, count);
}

// As many payloads side by side as the kernel takes, `count` words each.
void alias_several(benchmark::State& state, const Kernels& kernels, size_t count) {
  const bits::AliasSeveral& several = codec::lanes_for(count) == 4 ? kernels.alias_fours : kernels.alias_sixteens;
  if (several.most == 0) return state.SkipWithError("there is none");
  const Coded coded("alias", 6, count);
  std::vector<bits::OwnedWords> outs(several.most, bits::OwnedWords(6, count));
  for (auto _ : state) {
    std::array<codec::LaneReader, bits::AliasSeveral::kMost> readers;
    std::array<bits::AliasStream, bits::AliasSeveral::kMost> streams;
    for (size_t k = 0; k < several.most; ++k) {
      if (!readers[k].open(coded.payload, count)) std::abort();
      streams[k] = {codec::alias_decoder(coded.table.get()), &readers[k].cursor(), outs[k].words().data};
    }
    benchmark::DoNotOptimize(several.decode(streams.data(), several.most, count / codec::lanes_for(count)));
    benchmark::ClobberMemory();
  }
  count_words(state, count * several.most, count * several.most);
}

// Words dealt by the row above, evenly to the four streams.
void join_levels(benchmark::State& state, const Kernels& kernels, size_t count) {
  if (kernels.join_levels[1] == nullptr) return state.SkipWithError("there is none");
  constexpr size_t kRow = 256;
  test::Random random(1);
  // Levels that the words will have again, so that every pass deals alike.
  bits::OwnedWords words(16, count), out(16, count);
  std::vector<uint8_t> levels(kRow + count);
  for (size_t i = 0; i < levels.size(); ++i) {
    levels[i] = static_cast<uint8_t>(random.below(64));
    if (i >= kRow) words.words().set(i - kRow, uint64_t{levels[i]} << 5);
  }
  bits::LevelJoin join{{1, {levels.data()}, {1}, 0, {16, 32, 48}}, levels.data() + kRow, 5, 63, 0};
  std::vector<uint8_t> streams[bits::DealHands::kHands];
  for (size_t i = 0; i < count; ++i) {
    const uint8_t* const word = words.view().data + 2 * i;
    streams[levels[i] / 16].insert(streams[levels[i] / 16].end(), word, word + 2);
  }
  bits::DealHands hands{};
  for (size_t c = 0; c < bits::DealHands::kHands; ++c) {
    hands.next[c] = streams[c].data();
    hands.end[c] = streams[c].data() + streams[c].size();
  }
  for (auto _ : state) {
    if (!kernels.join_levels[1](join, hands, out.words().data, count)) std::abort();
    benchmark::ClobberMemory();
  }
  count_words(state, count, 2 * count);
}

// Sign, coded field and five low bits of 16, or more low bits of 32; with `symbols` from symbols instead of a payload.
void merge_alias(benchmark::State& state, const Kernels& kernels, size_t count, unsigned by_width, bool symbols) {
  bits::use_kernels(kernels);  // tables as it wants them
  const Coded coded("alias", 6, count);
  const ByteVector places(count + bits::kSymbolSlack, 5);
  const size_t lane = size_t{1} << by_width;
  const unsigned low = by_width == 0 ? 1 : by_width == 1 ? 5 : 21, top = static_cast<unsigned>(8 * lane - 1);
  const ByteVector signs(count / 8), lows(count * low / 8);
  uint32_t values[64];
  for (uint32_t s = 0; s < 64; ++s) values[s] = s << low;
  bits::AliasMerge merge{};
  merge.table = codec::alias_decoder(coded.table.get());
  merge.values = values;
  merge.counted = 63;
  merge.fields[merge.field_count++] = {signs.data(), signs.size(), 1, top};
  merge.fields[merge.field_count++] = {lows.data(), lows.size(), low, 0};
  ByteVector out(count * lane);
  size_t counted = 0;
  for (auto _ : state) {
    if (symbols) {
      kernels.merge_symbols[by_width](merge, places.data(), out.data(), count, counted);
      benchmark::ClobberMemory();
      continue;
    }
    codec::LaneReader reader;
    if (!reader.open(coded.payload, count)) std::abort();
    benchmark::DoNotOptimize(
        kernels.merge_alias[by_width](merge, reader.cursor(), out.data(), count / reader.cursor().lanes, counted));
    benchmark::ClobberMemory();
  }
  count_words(state, count, count * lane);
}

void through_codec(benchmark::State& state, const Kernels& kernels, const char* codec, unsigned width, size_t count,
                   bool encode) {
  bits::use_kernels(kernels);
  const Coded coded(codec, width, count);
  const codec::CodecSpec& spec = *codec::find_codec(codec);
  bits::OwnedWords out(width, count);
  ByteVector again;
  again.reserve(coded.payload.size());
  for (auto _ : state) {
    if (encode) {
      again.clear();
      if (!spec.encode(coded.table.get(), coded.words.view(), again)) std::abort();
    } else if (!spec.decode(coded.table.get(), coded.payload, out.words())) {
      std::abort();
    }
    benchmark::ClobberMemory();
  }
  count_words(state, count, coded.words.view().bytes());
}

void register_coding() {
  for (const size_t count : kCounts) {
    const std::string lanes = "x" + std::to_string(codec::lanes_for(count));
    add("alias_decode/" + lanes, [=](auto& s, auto& k) { alias_decode(s, k, count); });
    for (const unsigned by_width : {0u, 1u, 2u})
      if (codec::lanes_for(count) >= 16)
        add("merge_alias/u" + std::to_string(8u << by_width) + "/" + lanes,
            [=](auto& s, auto& k) { merge_alias(s, k, count, by_width, false); });
    for (const char* codec : {"alias", "rans", "huffman"})
      for (const unsigned width : {6u, 8u, 11u, 16u}) {
        if (!codec::find_codec(codec)->accepts(width)) continue;
        const std::string what = std::string(codec) + "/u" + std::to_string(width) + "/" + lanes;
        add("decode/" + what, [=](auto& s, auto& k) { through_codec(s, k, codec, width, count, false); });
        add("encode/" + what, [=](auto& s, auto& k) { through_codec(s, k, codec, width, count, true); });
      }
  }
}

void register_symbols() {
  add("alias_several/x4", [](auto& s, auto& k) { alias_several(s, k, 8192); });
  add("alias_several/x16", [](auto& s, auto& k) { alias_several(s, k, 32768); });
  add("join_levels/u16", [](auto& s, auto& k) { join_levels(s, k, 65536); });
  for (const unsigned by_width : {0u, 1u, 2u})
    add("merge_symbols/u" + std::to_string(8u << by_width),
        [=](auto& s, auto& k) { merge_alias(s, k, 8192, by_width, true); });
}

constexpr size_t kWords = 65536;

void pack(benchmark::State& state, const Kernels& kernels, unsigned width, bool reverse) {
  const bits::OwnedWords words = test::make_words(test::Shape::uniform, width, kWords, 1);
  ByteVector packed((kWords * width + 7) / 8);
  bits::OwnedWords out(width, kWords);
  kernels.pack(words.view(), width, packed.data());
  for (auto _ : state) {
    if (reverse)
      kernels.unpack(packed.data(), width, out.words());
    else
      kernels.pack(words.view(), width, packed.data());
    benchmark::ClobberMemory();
  }
  count_words(state, kWords, words.view().bytes());
}

void fields(benchmark::State& state, const Kernels& kernels, unsigned width, unsigned shift, unsigned b, int what) {
  const bits::OwnedWords words = test::make_words(test::Shape::uniform, width, kWords, 1);
  bits::OwnedWords out(b, kWords);
  ByteVector bytes((size_t{1} << std::min(b, 16u)) + 3 + kWords * b);
  for (auto _ : state) {
    if (what == 0) kernels.take_field(words.view(), shift, out.words());
    if (what == 1) kernels.pack_field(words.view(), shift, b, bytes.data());
    if (what == 2) kernels.look_up(words.view(), shift, b, bytes.data(), out.words().data);
    if (what == 3) benchmark::DoNotOptimize(kernels.any_bits(words.view()));
    benchmark::ClobberMemory();
  }
  count_words(state, kWords, words.view().bytes());
}

void register_words() {
  for (const unsigned width : {1u, 3u, 5u, 7u, 10u, 13u, 21u, 33u, 52u}) {
    add("pack/u" + std::to_string(width), [=](auto& s, auto& k) { pack(s, k, width, false); });
    add("unpack/u" + std::to_string(width), [=](auto& s, auto& k) { pack(s, k, width, true); });
  }
  const char* const kinds[] = {"take_field", "pack_field", "look_up", "any_bits"};
  for (int what = 0; what < 4; ++what) {
    add(std::string(kinds[what]) + "/u16", [=](auto& s, auto& k) { fields(s, k, 16, 5, 8, what); });
    add(std::string(kinds[what]) + "/u32", [=](auto& s, auto& k) { fields(s, k, 32, 23, 8, what); });
  }
}

void copy(benchmark::State& state) {
  const ByteVector from(static_cast<size_t>(state.range(0)), 1);
  ByteVector to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  count_words(state, from.size(), from.size());
}
BENCHMARK(copy)->Arg(1 << 17)->Arg(1 << 26);

}  // namespace

int main(int argc, char** argv) {
  register_coding();
  register_symbols();
  register_words();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
}
