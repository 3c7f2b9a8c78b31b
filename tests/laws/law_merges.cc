// SPDX-License-Identifier: Apache-2.0
//
// Kernels that make words of several streams: as far as each goes it gives what scalar code gives of the streams one by
// one, whatever the length, the place in memory and the words, also hostile ones.
#include <doctest/doctest.h>

#include "laws/kernel_streams.h"

using namespace brevis;
using namespace brevis::test;

TEST_CASE("kernels: payloads side by side are decoded as alias_decode does it, one by one") {
  for (const Kernels& variant : variants())
    for (const unsigned lanes : {4u, 16u}) {
      const bits::AliasSeveral& several = lanes == 4 ? variant.alias_fours : variant.alias_sixteens;
      REQUIRE(several.most <= bits::AliasSeveral::kMost);
      if (several.most == 0) continue;
      CAPTURE(variant.full_name());
      CAPTURE(lanes);
      size_t done_in_all = 0;
      Random random(14);
      for (unsigned trial = 0; trial < 2000; ++trial) {
        const size_t rounds = random.below(70), count = 1 + random.below(several.most);
        std::vector<codec::TablePtr> tables;
        std::vector<Stream> streams;
        std::vector<Run> runs;
        std::vector<Exact> outs;
        for (size_t k = 0; k < count; ++k) {
          const unsigned width = random.below(2) == 0 ? 6 : 1 + static_cast<unsigned>(random.below(6));
          tables.push_back(alias_table(random, width, static_cast<unsigned>(random.below(4))));
          streams.emplace_back(random, lanes, random.below(lanes * (rounds + 2) * (1 + random.below(2)) + 1));
          outs.emplace_back(lanes * rounds, random.below(64), 0xee);
        }
        for (Stream& stream : streams) runs.emplace_back(stream);
        std::vector<bits::AliasStream> given;
        for (size_t k = 0; k < count; ++k)
          given.push_back({decoder_of(random, tables[k]), &runs[k].cursor, outs[k].data()});
        const size_t done = several.decode(given.data(), count, rounds);
        REQUIRE(done <= rounds);
        REQUIRE(done % bits::AliasSeveral::kRounds == 0);
        done_in_all += done;
        bool ends = rounds - done < bits::AliasSeveral::kRounds;
        for (size_t k = 0; k < count; ++k) {
          Run expected(streams[k]);
          Exact truth(lanes * rounds, 0, 0xee);
          REQUIRE(scalar().alias_decode(given[k].table, expected.cursor, truth.data(), done) == done);
          REQUIRE(runs[k] == expected);
          REQUIRE(same(outs[k].data(), truth.data(), truth.size()));
          ends = ends || runs[k].cursor.words_left() < lanes * bits::AliasSeveral::kRounds;
        }
        REQUIRE(ends);
      }
      CHECK(done_in_all > 10000);
    }
}

namespace {

// A merge at random of words first, first + 1, ... of 1, 2 or 4 bytes: disjoint fields, from the lowest bit up, and
// values above them.
struct RandomMerge {
  bits::AliasMerge merge{};
  std::vector<Exact> data;
  uint32_t values[64];

  RandomMerge(Random& random, unsigned bits, size_t first, size_t words, unsigned trial) {
    unsigned at = static_cast<unsigned>(random.below(3));
    const size_t fields = random.below(bits::AliasMerge::kMaxFields);
    for (size_t k = 0; k < fields && at + 1 < bits; ++k) {
      const unsigned room = bits - 1 - at;
      const unsigned b = random.below(3) == 0 ? 1 : 1 + static_cast<unsigned>(random.below(room));
      data.emplace_back(((first + words) * b + 7) / 8 + (random.below(4) == 0 ? random.below(70) : 0),
                        random.below(16));
      fill_random(random, data.back());
      merge.fields[merge.field_count++] = {nullptr, data.back().size(), b, at};
      at += b;
    }
    for (size_t k = 0; k < merge.field_count; ++k) merge.fields[k].data = data[k].data();
    const uint64_t free_bits = at >= bits ? 0 : bits::low_mask(bits) & ~bits::low_mask(at);
    for (uint32_t& value : values)
      value = static_cast<uint32_t>(random.next() & free_bits & (trial % 3 == 0 ? ~uint64_t{0} : 0xffff0));
    merge.values = values;
    merge.counted = static_cast<unsigned>(random.below(70));
    for (unsigned s = 0; s < 64 && merge.counted < 64; ++s)
      if (s != merge.counted && values[s] == values[merge.counted]) merge.counted = 64;
    merge.first = first;
  }
};

}  // namespace

TEST_CASE("kernels: merge_alias of every variant equals decoding and merge_symbols as far as it goes") {
  for (const Kernels& variant : bits::all_kernels()) {
    CAPTURE(variant.full_name());
    size_t done_in_all = 0;
    Random random(3);
    for (unsigned trial = 0; trial < 6000; ++trial) {
      const size_t by_width = random.below(3), lane = size_t{1} << by_width;
      const auto table = alias_table(random, 1 + static_cast<unsigned>(random.below(6)), trial % 4);
      const unsigned lanes = draw_lanes(random);
      const size_t rounds = random.below(lanes == 64 ? 24 : 70),
                   first = lanes >= 16 ? lanes * random.below(9) : random.below(70);
      RandomMerge random_merge(random, static_cast<unsigned>(8 * lane), first, rounds * lanes, trial);
      bits::AliasMerge& merge = random_merge.merge;
      merge.table = decoder_of(random, table);
      if (variant.wants_slots && merge.table.slots == nullptr) continue;

      Stream stream(random, lanes, random.below(lanes * (rounds + 2) + 1));
      Run run(stream), expected(stream);
      Exact out(rounds * lanes * lane, random.below(64), 0xee), truth(rounds * lanes * lane, 0, 0xee);
      size_t counted = 5, expected_counted = 5;
      const size_t done = variant.merge_alias[by_width](merge, run.cursor, out.data(), rounds, counted);
      CAPTURE(trial);
      REQUIRE(done <= rounds);
      Exact symbols(done * lanes + bits::kSymbolSlack, 0);
      REQUIRE(scalar().alias_decode(merge.table, expected.cursor, symbols.data(), done) == done);
      scalar().merge_symbols[by_width](merge, symbols.data(), truth.data(), done * lanes, expected_counted);
      REQUIRE(run == expected);
      REQUIRE(counted == expected_counted);
      REQUIRE(same(out.data(), truth.data(), done * lanes * lane));
      done_in_all += done;
    }
    CHECK(done_in_all > 10000);
  }
}

TEST_CASE("kernels: merge_symbols gives values and fields, and every variant equals scalar") {
  for (const Kernels& variant : bits::all_kernels()) {
    CAPTURE(variant.full_name());
    Random random(15);
    for (unsigned trial = 0; trial < 6000; ++trial) {
      CAPTURE(trial);
      const size_t by_width = random.below(3), lane = size_t{1} << by_width;
      const size_t count = random.below(random.below(2) == 0 ? 300 : 2500), first = random.below(40);
      const RandomMerge random_merge(random, static_cast<unsigned>(8 * lane), first, count, trial);
      const bits::AliasMerge& merge = random_merge.merge;
      Exact symbols(count + bits::kSymbolSlack, random.below(64));
      fill_random(random, symbols);
      for (size_t i = 0; i < count; ++i) symbols.data()[i] &= 63;
      Exact out(count * lane, random.below(64), 0xee);
      size_t counted = 5, expected_counted = 5;
      variant.merge_symbols[by_width](merge, symbols.data(), out.data(), count, counted);
      for (size_t i = 0; i < count; ++i) {
        uint64_t expected = merge.values[symbols.data()[i]], word = 0;
        for (size_t k = 0; k < merge.field_count; ++k) {
          uint64_t field = 0;
          for (unsigned bit = 0; bit < merge.fields[k].b; ++bit) {
            const size_t place = (first + i) * merge.fields[k].b + bit;
            field |= (uint64_t{merge.fields[k].data[place / 8]} >> place % 8 & 1) << bit;
          }
          expected |= field << merge.fields[k].shift;
        }
        std::memcpy(&word, out.data() + i * lane, lane);
        REQUIRE(word == expected);
        expected_counted += symbols.data()[i] == merge.counted;
      }
      REQUIRE(counted == expected_counted);
    }
  }
}

TEST_CASE("kernels: merge_fields of every variant equals scalar, which equals the fields one by one") {
  for (const Kernels& variant : variants()) {
    CAPTURE(variant.full_name());
    Random random(8);
    for (unsigned trial = 0; trial < 4000; ++trial) {
      const size_t by_width = random.below(3), lane = size_t{1} << by_width, count = random.below(1200);
      const unsigned width = static_cast<unsigned>(8 * lane);
      bits::FieldMerge merge{};
      std::vector<Exact> data;
      std::vector<bits::OwnedWords> fields;
      std::vector<unsigned> shifts;
      std::vector<bool> is_packed;
      unsigned at = static_cast<unsigned>(random.below(3));
      merge.fixed = random.next() & bits::low_mask(at);
      for (size_t k = random.below(9); k != 0 && at < width; --k) {
        const unsigned b = random.below(3) == 0 ? 1 : 1 + static_cast<unsigned>(random.below(width - at));
        const bool packed = random.below(2) == 0 && b != width && merge.packed_count < 4;
        if (!packed && merge.lane_count == 4) break;
        fields.push_back(test::make_words(test::Shape::uniform, b, count, random.next()));
        shifts.push_back(at);
        is_packed.push_back(packed);
        merge.packed_count += packed;
        merge.lane_count += !packed;
        at += b;
      }
      merge.packed_count = merge.lane_count = 0;
      for (size_t k = 0; k < fields.size(); ++k) {
        const unsigned b = fields[k].width();
        // Lanes too at the end of their own memory.
        data.emplace_back(is_packed[k] ? (count * b + 7) / 8 : fields[k].view().bytes(),
                          is_packed[k] ? random.below(16) : 0);
        if (is_packed[k])
          scalar().pack(fields[k].view(), b, data.back().data());
        else if (count != 0)
          std::memcpy(data.back().data(), fields[k].view().data, fields[k].view().bytes());
      }
      for (size_t k = 0; k < fields.size(); ++k) {
        if (is_packed[k])
          merge.packed[merge.packed_count++] = {data[k].data(), data[k].size(), fields[k].width(), shifts[k]};
        else
          merge.lanes[merge.lane_count++] = {{data[k].data(), count, static_cast<uint8_t>(fields[k].width())},
                                             shifts[k]};
      }
      Exact out(count * lane, random.below(64), 0xee), truth(count * lane, random.below(64), 0x11);
      variant.merge_fields[by_width](merge, out.data(), count);
      scalar().merge_fields[by_width](merge, truth.data(), count);
      REQUIRE(out == truth);
      for (size_t i = 0; i < count; ++i) {
        uint64_t expected = merge.fixed, word = 0;
        for (size_t k = 0; k < fields.size(); ++k) expected |= fields[k].view().at(i) << shifts[k];
        std::memcpy(&word, truth.data() + i * lane, lane);
        REQUIRE(word == expected);
      }
    }
  }
}
