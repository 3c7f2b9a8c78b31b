// SPDX-License-Identifier: Apache-2.0
//
// Operators plan in words, readers ask in bytes. The walk below therefore plans the whole words that the range touches
// and cuts the pieces to bytes at the end. Cutting the front takes bytes that a later `copy` may want to repeat; that
// copy then starts with the missing word planned once more (see emit()).
#include "dsl/plan.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace brevis::dsl {
namespace {

class Walker : public PlanSink {
 public:
  Walker(const Program& program, std::span<const uint64_t> frame_words, std::vector<Piece>& pieces)
      : program_(program), frame_words_(frame_words), bytes_(program.width() / 8), pieces_(pieces) {}

  Status visit(uint32_t at, uint64_t n, uint64_t first, uint64_t count) {
    const Node& node = program_.nodes()[at];
    if (node.region >= 0) return frames(static_cast<uint32_t>(node.region), first, count);
    const uint32_t outer = std::exchange(node_, at);
    Status status = spec_of(node.op).plan(node, n, first, count, *this);
    node_ = outer;
    return status;
  }

  Status child(uint32_t index, uint64_t n, uint64_t first, uint64_t count) override {
    if (count == 0) return {};
    return visit(program_.nodes()[node_].children[index], n, first, count);
  }

  void fill(uint64_t value, uint64_t step, uint64_t first, uint64_t count) override {
    Piece piece = next(Piece::Kind::fill, count);
    piece.source = first * bytes_;
    piece.value = value;
    piece.step = step;
    add(piece);
  }

  void ref(uint64_t offset, uint64_t bytes) override {
    Piece piece = next(Piece::Kind::ref, bytes / bytes_);
    piece.source = offset;
    add(piece);
  }

  void base(uint32_t number, uint64_t offset, uint64_t bytes) override {
    Piece piece = next(Piece::Kind::base, bytes / bytes_);
    piece.region = number;
    piece.source = offset;
    add(piece);
  }

  void copy(uint64_t period, uint64_t count) override {
    Piece piece = next(Piece::Kind::copy, count);
    piece.source = period * bytes_;
    add(piece);
  }

 private:
  Status frames(uint32_t region, uint64_t first, uint64_t count) {
    const uint64_t frame_words = frame_words_[region];
    while (count > 0) {
      const uint64_t within = first % frame_words;
      const uint64_t part = std::min(count, frame_words - within);
      Piece piece = next(Piece::Kind::frame, part);
      piece.region = region;
      piece.frame = first / frame_words;
      piece.source = within * bytes_;
      add(piece);
      first += part;
      count -= part;
    }
    return {};
  }

  Piece next(Piece::Kind kind, uint64_t words) const {
    Piece piece{kind, at_, words * bytes_};
    piece.width = static_cast<uint8_t>(bytes_ * 8);
    return piece;
  }

  void add(const Piece& piece) {
    if (piece.length == 0) return;
    at_ += piece.length;
    pieces_.push_back(piece);
  }

  const Program& program_;
  std::span<const uint64_t> frame_words_;
  const uint64_t bytes_;  // of a word
  std::vector<Piece>& pieces_;
  uint64_t at_ = 0;    // bytes planned so far
  uint32_t node_ = 0;  // whose plan() is running
};

// The part [from, to) of a piece, both counted like piece.at.
Piece cut(Piece piece, uint64_t from, uint64_t to) {
  if (piece.kind != Piece::Kind::copy) piece.source += from - piece.at;
  piece.at = from;
  piece.length = to - from;
  return piece;
}

// Cuts pieces of whole words to the bytes [skip, skip + length) of them; skip is less than a word.
void emit(const std::vector<Piece>& whole, uint64_t bytes, uint64_t skip, uint64_t length, std::vector<Piece>& pieces) {
  auto put = [&](const Piece& piece) {
    const uint64_t from = std::max(piece.at, skip);
    const uint64_t to = std::min(piece.at + piece.length, skip + length);
    if (from >= to) return;
    pieces.push_back(cut(piece, from, to));
    pieces.back().at -= skip;
  };
  for (const Piece& piece : whole) {
    if (piece.kind != Piece::Kind::copy || piece.source != piece.at || skip == 0) {
      put(piece);
      continue;
    }
    // A copy of all from the first word on, whose front is not in the output. No copy is the first piece.
    Piece again = whole.front();
    again.at = piece.at;
    again.length = bytes;
    put(again);
    if (piece.length > bytes) put(cut(piece, piece.at + bytes, piece.at + piece.length));
  }
}

template <class T>
void fill_words(uint64_t word, uint64_t step, MutByteSpan out) {
  for (size_t at = 0; at + sizeof(T) <= out.size(); at += sizeof(T), word += step) {
    const T value = static_cast<T>(word);
    std::memcpy(out.data() + at, &value, sizeof(T));
  }
}

// Repeats the first `period` bytes of out over the rest of it.
void spread(MutByteSpan out, size_t period) {
  // What is copied doubles, so that short periods become long copies, up to a size that stays in the nearest cache.
  constexpr size_t kChunk = size_t{8} << 10;
  size_t chunk = period;  // a multiple of the period, all of it before `at`
  for (size_t at = period; at < out.size();) {
    const size_t n = std::min(chunk, out.size() - at);
    std::memcpy(out.data() + at, out.data(), n);
    at += n;
    if (chunk < kChunk) chunk = at;
  }
}

}  // namespace

Status plan(const Program& program, uint64_t words, std::span<const uint64_t> frame_words, Range range,
            std::vector<Piece>& pieces) {
  const uint64_t bytes = program.width() / 8;
  if (program.width() % 8 != 0)
    return make_error(Errc::invalid_argument,
                      "words of " + std::to_string(program.width()) + " bits have no byte ranges");
  if (words > UINT64_MAX / 8 || range.offset > words * bytes || range.length > words * bytes - range.offset)
    return make_error(Errc::invalid_argument, "bytes " + std::to_string(range.offset) + " + " +
                                                  std::to_string(range.length) + " of a stream of " +
                                                  std::to_string(words) + " words");
  if (frame_words.size() != program.regions().size() || std::ranges::count(frame_words, uint64_t{0}) != 0)
    return make_error(Errc::invalid_argument, "every region needs its frame length");
  pieces.clear();
  if (range.length == 0) return {};

  const uint64_t first = range.offset / bytes;
  const uint64_t skip = range.offset % bytes;
  const uint64_t count = (range.end() - 1) / bytes - first + 1;
  if (skip == 0 && range.length % bytes == 0) return Walker(program, frame_words, pieces).visit(0, words, first, count);
  std::vector<Piece> whole;
  BREVIS_TRY(Walker(program, frame_words, whole).visit(0, words, first, count));
  emit(whole, bytes, skip, range.length, pieces);
  return {};
}

void run_fill(const Piece& piece, MutByteSpan out) {
  const size_t bytes = piece.width / 8;
  if (out.empty()) return;
  uint64_t word = piece.value + piece.source / bytes * piece.step;
  if (piece.step == 0) {
    // Equal words: the word turned to where the piece starts in it, spread.
    if (bytes == 1) {
      std::memset(out.data(), static_cast<int>(word & 0xff), out.size());
      return;
    }
    const size_t turn = piece.source % bytes;
    const size_t n = std::min(bytes, out.size());
    for (size_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(word >> 8 * ((turn + i) % bytes));
    spread(out, n);
    return;
  }
  size_t at = 0;
  if (const size_t turn = piece.source % bytes; turn != 0) {
    for (size_t i = turn; i < bytes && at < out.size(); ++i) out[at++] = static_cast<uint8_t>(word >> 8 * i);
    word += piece.step;
  }
  const MutByteSpan rest = out.subspan(at);
  switch (bytes) {
    case 1: fill_words<uint8_t>(word, piece.step, rest); break;
    case 2: fill_words<uint16_t>(word, piece.step, rest); break;
    case 4: fill_words<uint32_t>(word, piece.step, rest); break;
    case 8: fill_words<uint64_t>(word, piece.step, rest); break;
    default:
      for (size_t i = 0; i + bytes <= rest.size(); i += bytes) {
        const uint64_t value = word + i / bytes * piece.step;
        for (size_t b = 0; b < bytes; ++b) rest[i + b] = static_cast<uint8_t>(value >> 8 * b);
      }
  }
  const size_t done = rest.size() / bytes * bytes;
  word += rest.size() / bytes * piece.step;
  for (size_t i = done; i < rest.size(); ++i) rest[i] = static_cast<uint8_t>(word >> 8 * (i - done));
}

void run_copy(const Piece& piece, MutByteSpan out) {
  spread(out.subspan(piece.at - piece.source, piece.source + piece.length), piece.source);
}

}  // namespace brevis::dsl
