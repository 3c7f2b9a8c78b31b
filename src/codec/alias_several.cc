// SPDX-License-Identifier: Apache-2.0
//
// Payloads of few lanes are chains of dependent steps, which a CPU waits through: several of them are decoded side by
// side, by a kernel, the long ones first; where one ends the next one takes its place. What a kernel leaves of a
// payload, its last symbols and the end check, is done as for a payload alone.
#include <algorithm>

#include "codec/alias.h"
#include "codec/lanes.h"

namespace brevis::codec {
namespace {

constexpr size_t kMost = bits::AliasSeveral::kMost;

const bits::AliasSeveral& several(unsigned lanes) {
  static constexpr bits::AliasSeveral kNone{};
  return lanes == 4 ? bits::kernels().alias_fours : lanes == 16 ? bits::kernels().alias_sixteens : kNone;
}

// A payload on its way.
class Strand {
 public:
  bool open(AliasTask& task) {
    task_ = &task;
    done_ = 0;
    decoder_ = alias_decoder(task.table);
    task.status = reader_.open(task.payload, task.out.count);
    return task.status.has_value();
  }
  size_t rounds() const { return (task_->out.count - done_) / lanes(); }
  // Whether a kernel can go on with it.
  bool lasts() const {
    const size_t least = bits::AliasSeveral::kRounds;
    return rounds() >= least && reader_.cursor().words_left() >= least * lanes();
  }
  bits::AliasStream stream() { return {decoder_, &reader_.cursor(), task_->out.data + done_}; }
  void advance(size_t rounds) { done_ += rounds * lanes(); }
  void finish() { task_->status = finish_alias(decoder_, reader_, task_->out, done_); }

 private:
  size_t lanes() const { return reader_.cursor().lanes; }

  AliasTask* task_ = nullptr;
  size_t done_ = 0;
  bits::AliasDecoder decoder_{};
  LaneReader reader_;
};

// All of as many lanes.
void decode_equal(const bits::AliasSeveral& kernel, std::span<AliasTask* const> tasks) {
  std::array<Strand, kMost> strands;
  std::array<Strand*, kMost> order;  // those under way, then the idle ones
  for (size_t i = 0; i < kMost; ++i) order[i] = &strands[i];
  size_t next = 0, active = 0;
  for (;;) {
    while (active < kernel.most && next < tasks.size()) {
      Strand& strand = *order[active];
      if (!strand.open(*tasks[next++])) continue;
      if (strand.lasts())
        ++active;
      else
        strand.finish();
    }
    if (active == 0) return;
    size_t rounds = SIZE_MAX;
    std::array<bits::AliasStream, kMost> streams;
    for (size_t i = 0; i < active; ++i) {
      streams[i] = order[i]->stream();
      rounds = std::min(rounds, order[i]->rounds());
    }
    const size_t done = active == 1 ? 0 : kernel.decode(streams.data(), active, rounds);
    for (size_t i = 0; i < active; ++i) order[i]->advance(done);
    for (size_t i = active; i-- > 0;) {
      if (done != 0 && order[i]->lasts()) continue;
      order[i]->finish();
      std::swap(order[i], order[--active]);
    }
  }
}

}  // namespace

size_t alias_side_by_side(size_t words) { return words == 0 ? 0 : several(lanes_for(words)).most; }

void decode_alias(std::span<AliasTask> tasks) {
  std::array<AliasTask*, kMostAliasTasks> sorted;
  for (const unsigned lanes : {4u, 16u}) {
    size_t count = 0;
    for (AliasTask& task : tasks)
      if (lanes_for(task.out.count) == lanes) sorted[count++] = &task;
    std::sort(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(count),
              [](const AliasTask* a, const AliasTask* b) { return a->out.count > b->out.count; });
    decode_equal(several(lanes), std::span(sorted).first(count));
  }
}

}  // namespace brevis::codec
