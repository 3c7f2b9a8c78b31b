// SPDX-License-Identifier: Apache-2.0
#include "synth/texts.h"

#include <algorithm>

#include "bits/log2.h"
#include "codec/zstd_frame.h"
#include "dsl/exec.h"
#include "dsl/verify.h"
#include "synth/complete.h"

namespace brevis::synth {
namespace {

constexpr uint64_t kLeastBytes = 256;
constexpr uint64_t kOddBytesOf = 4096;    // one byte in so many may be one that text has not
constexpr uint64_t kLookBytes = 1 << 17;  // from the middle
constexpr uint64_t kGainOf = 16;          // what repeats must save of the order-0 entropy

}  // namespace

bool may_be_text(const StreamStats& stats) {
  if (stats.width != 8 || stats.words < kLeastBytes || stats.ramp) return false;
  uint64_t odd = 0, expected = 0,
           followers = 0;  // of the leading bytes of UTF-8: the bytes that follow, and those seen
  for (unsigned byte = 0; byte < 256; ++byte) {
    const uint64_t count = stats.top_count(byte);
    if (byte < 0x20) {
      if (byte != '\t' && byte != '\n' && byte != '\r') odd += count;
    } else if (byte == 0x7f || byte == 0xc0 || byte == 0xc1 || byte > 0xf4) {
      odd += count;
    } else if (byte >= 0xc0) {
      expected += count * (byte < 0xe0 ? 1 : byte < 0xf0 ? 2 : 3);
    } else if (byte >= 0x80) {
      followers += count;
    }
  }
  odd += expected > followers ? expected - followers : followers - expected;
  return odd <= stats.words / kOddBytesOf + 4;  // a run may begin and end within a character
}

Result<std::optional<Choice>> as_text(const Stream& stream, const StreamStats& stats, uint64_t frame_bytes) {
  if (!may_be_text(stats)) return std::optional<Choice>{};
  // Bytes in the range of text without what makes it text go the way of other bytes.
  bits::OwnedWords look(stream.width, std::min(kLookBytes, stream.words));
  BREVIS_TRY(stream.read((stream.words - look.count()) / 2, look.words()));
  StreamStats of_look = gather(look.view());
  const uint64_t entropy = entropy_cost(of_look.field(0, 8)) / (8 * 256);
  const uint64_t fast = codec::zstd_fast_size(look.view());
  if (fast >= entropy - entropy / kGainOf) return std::optional<Choice>{};
  const dsl::Expr literal{dsl::OpId::literal, {static_cast<uint64_t>(codec::CodecId::text)}, {}};
  BREVIS_ASSIGN(auto program, dsl::build(stream.width, literal));
  Choice choice;
  const uint64_t frame = std::min(2 * frame_bytes, dsl::kMaxFrameBytes);
  for (const auto& region : program.regions())
    choice.frame_words.push_back(dsl::default_frame_words(program, region, frame));
  choice.tables.resize(program.slots().size());
  choice.program = std::make_shared<dsl::Program>(std::move(program));
  choice.estimated_bytes = static_cast<uint64_t>(static_cast<unsigned __int128>(fast) * stream.words / look.count());
  choice.settled = true;
  return std::optional<Choice>(std::move(choice));
}

}  // namespace brevis::synth
