// SPDX-License-Identifier: Apache-2.0
#include "serve/frames.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <new>

#include "base/threads.h"
#include "dsl/exec.h"
#include "serve/damage.h"

namespace brevis::serve {
namespace {

using Clock = std::chrono::steady_clock;

uint64_t ns_since(Clock::time_point began) {
  return static_cast<uint64_t>(std::chrono::nanoseconds(Clock::now() - began).count());
}

// A scratch takes one or two MB: under a small cap they would leave no room for frames.
size_t idle_scratches(uint64_t capacity) {
  return std::clamp<size_t>(capacity / (uint64_t{8} << 20), 1, available_cores() + 1);
}

}  // namespace

Frames::Frames(std::shared_ptr<cache::Store> store, std::unique_ptr<cache::Disk> disk)
    : store_(std::move(store)), disk_(std::move(disk)), scratches_(*store_, idle_scratches(store_->capacity())) {}

cache::BlockPtr Frames::find(const OpenArchive& archive, const archive::FilePiece& piece, size_t serving) {
  return store_->find(key_of(archive, piece), serving);
}

bool Frames::holds(const OpenArchive& archive, const archive::FilePiece& piece) const {
  return store_->contains(key_of(archive, piece)) ||
         (disk_ && disk_->holds({archive.lasting_id(), piece.frame_index}) != 0);
}

void Frames::announce(const OpenArchive& archive, Range range) const {
  const ReaderPtr reader = archive.reader();
  std::vector<archive::FilePiece> pieces;
  if (!reader || archive.at_hand() || !archive::plan_file(*reader, range, pieces)) return;
  for (const archive::FilePiece& piece : pieces) {
    if (piece.piece.kind != dsl::Piece::Kind::frame || holds(archive, piece)) continue;
    const archive::FrameEntry& frame = reader->manifest().frames[piece.frame_index];
    reader->file().announce({frame.offset, frame.length});
  }
}

// nullptr: the disk has it not, or cannot give it now (would_wait).
cache::BlockPtr Frames::from_disk(const OpenArchive& archive, const archive::FilePiece& piece, uint64_t bytes,
                                  bool may_wait, bool& would_wait) {
  if (!disk_) return nullptr;
  const cache::Key key{archive.lasting_id(), piece.frame_index};
  if (disk_->holds(key) != bytes) return nullptr;
  std::shared_ptr<cache::Block> block = store_->allocate(bytes);
  const auto found = disk_->read(key, {block->data(), bytes}, may_wait);
  would_wait = found == cache::Disk::Found::would_wait;
  return found == cache::Disk::Found::hit ? block : nullptr;
}

Result<cache::BlockPtr> Frames::from_archive(OpenArchive& archive, const archive::Reader& reader,
                                             const archive::FilePiece& piece, const Way& way) {
  struct Read {
    archive::FramePlace place;
    std::shared_ptr<const dsl::BoundProgram> bound;
    std::shared_ptr<cache::Block> block;
  };
  const auto prepare = [&](const archive::FilePiece& of) -> Result<Read> {
    Read read{archive::frame_place(reader, of), nullptr, nullptr};
    BREVIS_ASSIGN(read.bound, reader.bound(of.record));
    read.block = store_->allocate(read.place.bytes);
    return read;
  };
  const ScratchPool::Lease scratch = scratches_.take();
  // Waiting is time by the clock; work is processor time, or a busy machine would look like slow storage.
  const auto began = Clock::now();
  const uint64_t worked = thread_cpu_ns();
  BREVIS_ASSIGN(const bool at_hand, reader.read_frame_nowait(piece.frame_index, scratch->stored[0]));
  archive.note_fetch(at_hand);
  if (!at_hand && !way.may_wait) return cache::BlockPtr();
  if (!at_hand) BREVIS_TRY(reader.read_frame(piece.frame_index, scratch->stored[0]));
  uint64_t source_ns = at_hand ? 0 : ns_since(began);

  std::array<Read, Scratch::kFrames> reads;
  std::array<Companion*, Scratch::kFrames> whose{};
  size_t count = 1;
  BREVIS_ASSIGN(reads[0], prepare(piece));
  for (Companion& companion : way.company) {
    const auto read = reader.read_frame_nowait(companion.piece->frame_index, scratch->stored[count]);
    if (!read || !*read) continue;
    auto prepared = prepare(*companion.piece);
    if (!prepared) continue;
    whose[count] = &companion;
    reads[count++] = std::move(*prepared);
  }
  const uint64_t fetched = thread_cpu_ns();
  if (at_hand) source_ns = fetched - worked;

  std::array<dsl::FrameTask, Scratch::kFrames> tasks;
  uint64_t bytes = 0;
  for (size_t i = 0; i < count; ++i) {
    const archive::FramePlace& place = reads[i].place;
    tasks[i] = {reads[i].bound.get(),
                place.region,
                place.first_word,
                scratch->stored[i],
                {reads[i].block->data(), place.bytes},
                i == 0 ? way.bases : std::span<const ByteSpan>{}};
    bytes += place.bytes;
  }
  scratch->arena.reset();
  dsl::decode_frames(std::span(tasks).first(count), scratch->arena);
  const uint64_t decode_ns = thread_cpu_ns() - fetched;
  if (!tasks[0].status) return std::move(tasks[0].status).error();

  cache::BlockPtr first;
  const uint64_t cost = archive.mean_cost(source_ns + decode_ns, bytes);
  counters_.source_ns.fetch_add(source_ns, std::memory_order_relaxed);
  counters_.decode_ns.fetch_add(decode_ns, std::memory_order_relaxed);
  for (size_t i = 0; i < count; ++i) {
    if (!tasks[i].status) continue;
    cache::BlockPtr block = std::move(reads[i].block);
    counters_.decoded.fetch_add(1, std::memory_order_relaxed);
    counters_.decoded_bytes.fetch_add(reads[i].place.bytes, std::memory_order_relaxed);
    archive.count_decode();
    const archive::FilePiece& of = i == 0 ? piece : *whose[i]->piece;
    if (disk_) disk_->offer({archive.lasting_id(), of.frame_index}, block, cost);
    (i == 0 ? first : whose[i]->block) = std::move(block);
  }
  return first;
}

// In memory, as far as there is room.
void Frames::keep(const OpenArchive& archive, const archive::FilePiece& piece, const cache::BlockPtr& block,
                  const Way& way, size_t serving) {
  if (way.ahead) counters_.ahead.fetch_add(1, std::memory_order_relaxed);
  try {
    store_->insert(key_of(archive, piece), block, serving, way.ahead && serving == 0);
  } catch (const std::bad_alloc&) {  // then it is not kept
  }
}

Result<cache::BlockPtr> Frames::obtain(OpenArchive& archive, const archive::Reader& reader,
                                       const archive::FilePiece& piece, Way way) {
  Result<cache::BlockPtr> block;
  try {
    bool would_wait = false;
    const uint64_t bytes = archive::frame_place(reader, piece).bytes;
    block = from_disk(archive, piece, bytes, way.may_wait, would_wait);
    if (would_wait) archive.note_fetch(false);
    if (would_wait) return cache::BlockPtr();
    if (!*block) block = from_archive(archive, reader, piece, way);
  } catch (const std::bad_alloc&) {
    return Error::from_errno(ENOMEM, "reading '" + archive.path() + "'");
  }
  if (!block || !*block) return block;
  keep(archive, piece, *block, way, way.serving);
  for (const Companion& companion : way.company)
    if (companion.block) keep(archive, *companion.piece, companion.block, way, companion.serving);
  return block;
}

void Frames::note_failure(OpenArchive& archive, const archive::Reader& reader, const archive::FilePiece& piece,
                          uint64_t offset, const Error& error) noexcept try {
  if (!archive.first_damage(piece.frame_index)) return;
  const bool is_damage = error.kind() == Errc::corrupt || error.kind() == Errc::truncated;
  if (is_damage) counters_.damaged.fetch_add(1, std::memory_order_relaxed);
  log_damage(reader, piece, offset, error);
} catch (const std::exception&) {  // no memory for the line: whoever waits for the frame is told all the same
}

}  // namespace brevis::serve
