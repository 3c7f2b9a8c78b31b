// SPDX-License-Identifier: Apache-2.0
//
// text: bytes of text by zstd at its best level, after numbers that count up were taken out. Vocabularies number their
// entries, `"word": 4711,` after `"other": 4710,`: zstd pays for each of these numbers, and they tell nothing.
//
// A number is a maximal run of decimal digits; its place are the two bytes before it. A marker byte that the text has
// not stands for a number that is one more than the last one at the same place.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "codec/zstd_frame.h"

namespace brevis::codec {
namespace {

constexpr int kLevel = 19;
constexpr uint8_t kPlain = 0, kNumbers = 1;   // the payload's first byte
constexpr size_t kMaxDigits = 9;              // of a number: what is longer counts for nothing
constexpr uint32_t kMaxNumber = 999'999'999;  // of as many digits
constexpr uint8_t kNoByte = 0;                // stands before the first byte

bool is_digit(uint8_t byte) { return byte >= '0' && byte <= '9'; }

// The last number at each place.
class LastNumbers {
 public:
  LastNumbers() : next_(1u << 16) {}
  void clear() { std::fill(next_.begin(), next_.end(), 0); }
  // What a marker behind text[0, end) stands for; nullopt where it cannot stand.
  std::optional<uint32_t> expected(const uint8_t* text, size_t end) const {
    const uint32_t next = next_[place(text, end)];
    if (next == 0 || next > kMaxNumber) return std::nullopt;
    return next;
  }
  // Takes note of the run text[from, end), of digits only, if it is a number.
  void note(const uint8_t* text, size_t from, size_t end) {
    if (end - from > kMaxDigits || (text[from] == '0' && end - from > 1)) return;
    uint32_t value = 0;
    for (size_t i = from; i < end; ++i) value = 10 * value + (text[i] - '0');
    next_[place(text, from)] = value + 1;
  }

 private:
  static size_t place(const uint8_t* text, size_t end) {
    const unsigned one = end >= 1 ? text[end - 1] : kNoByte, two = end >= 2 ? text[end - 2] : kNoByte;
    return one << 8 | two;
  }
  std::vector<uint32_t> next_;  // one more than the last number, 0 before there was one
};

LastNumbers& fresh_numbers() {
  thread_local LastNumbers numbers;
  numbers.clear();
  return numbers;
}

size_t write_number(uint32_t value, std::array<uint8_t, kMaxDigits>& digits) {
  size_t n = 0;
  for (uint32_t rest = value; rest != 0 || n == 0; rest /= 10) ++n;
  for (size_t i = n; i-- > 0; value /= 10) digits[i] = static_cast<uint8_t>('0' + value % 10);
  return n;
}

bool accepts(unsigned width) { return width == 8; }

Status corrupt(const char* why) { return make_error(Errc::corrupt, std::string("text payload: ") + why); }

// Puts the numbers back.
Status unfold(ByteSpan body, uint8_t marker, MutByteSpan out) {
  LastNumbers& numbers = fresh_numbers();
  std::array<uint8_t, kMaxDigits> digits;
  size_t at = 0, run = 0;  // run: where the digits before `at` began, if there are any
  bool in_run = false, after_marker = false;
  for (const uint8_t byte : body) {
    if (byte == marker) {
      if (in_run || after_marker) return corrupt("a number within a number");
      const auto number = numbers.expected(out.data(), at);
      if (!number) return corrupt("a number that follows none");
      const size_t n = write_number(*number, digits);
      if (n > out.size() - at) return corrupt("more bytes than the frame has");
      std::copy_n(digits.begin(), n, out.begin() + at);
      numbers.note(out.data(), at, at + n);
      at += n;
      after_marker = true;
      continue;
    }
    if (at == out.size()) return corrupt("more bytes than the frame has");
    if (is_digit(byte)) {
      if (after_marker) return corrupt("a number within a number");
      if (!in_run) run = at;
      in_run = true;
    } else {
      if (in_run) numbers.note(out.data(), run, at);
      in_run = after_marker = false;
    }
    out[at++] = byte;
  }
  return at == out.size() ? Status{} : corrupt("fewer bytes than the frame has");
}

Status decode(const Table*, ByteSpan payload, bits::Words out) {
  if (out.count == 0) return payload.empty() ? Status{} : corrupt("bytes but no words");
  if (payload.empty()) return corrupt("no bytes");
  if (payload[0] == kPlain) return unpack_zstd_frame(payload.subspan(1), out.byte_span());
  if (payload[0] != kNumbers) return corrupt("a form that is not known");
  if (payload.size() < 2) return corrupt("no marker");
  const uint8_t marker = payload[1];
  if (is_digit(marker)) return corrupt("a digit as marker");
  BREVIS_ASSIGN(const uint64_t size, zstd_frame_content(payload.subspan(2)));
  // A marker is never longer than its number.
  if (size > out.bytes()) return corrupt("more bytes than the frame has");
  thread_local ByteVector body;
  body.resize(size);
  BREVIS_TRY(unpack_zstd_frame(payload.subspan(2), body));
  return unfold(body, marker, out.byte_span());
}

// The lowest byte that does not occur, and is no digit.
std::optional<uint8_t> free_byte(ByteSpan text) {
  std::array<bool, 256> used{};
  for (const uint8_t byte : text) used[byte] = true;
  for (unsigned byte = 0; byte < 256; ++byte)
    if (!used[byte] && !is_digit(static_cast<uint8_t>(byte))) return static_cast<uint8_t>(byte);
  return std::nullopt;
}

// Takes numbers out; how many.
size_t fold(ByteSpan text, uint8_t marker, ByteVector& body) {
  LastNumbers& numbers = fresh_numbers();
  std::array<uint8_t, kMaxDigits> digits;
  size_t count = 0;
  for (size_t at = 0; at < text.size();) {
    if (!is_digit(text[at])) {
      body.push_back(text[at++]);
      continue;
    }
    size_t end = at + 1;
    while (end < text.size() && is_digit(text[end])) ++end;
    const auto number = numbers.expected(text.data(), at);
    const size_t n = number ? write_number(*number, digits) : 0;
    if (n == end - at && std::equal(digits.begin(), digits.begin() + n, text.begin() + at)) {
      body.push_back(marker);
      ++count;
    } else {
      body.insert(body.end(), text.begin() + at, text.begin() + end);
    }
    numbers.note(text.data(), at, end);
    at = end;
  }
  return count;
}

Status encode(const Table*, bits::ConstWords in, ByteVector& out) {
  if (in.count == 0) return {};
  thread_local ByteVector body;
  body.clear();
  const auto marker = free_byte(in.byte_span());
  if (!marker || fold(in.byte_span(), *marker, body) == 0) {
    out.push_back(kPlain);
    return append_zstd_frame(in.byte_span(), kLevel, out);
  }
  out.push_back(kNumbers);
  out.push_back(*marker);
  return append_zstd_frame(body, kLevel, out);
}

uint64_t estimate(const Table*, const Histogram& histogram) { return zstd_codec.estimate(nullptr, histogram); }

}  // namespace

const CodecSpec text_codec = {.id = CodecId::text,
                              .name = "text",
                              .since = 1,
                              .needs_table = false,
                              .accepts = accepts,
                              .load = no_table_load,
                              .decode = decode,
                              .train = no_table_train,
                              .encode = encode,
                              .estimate = estimate,
                              .by_order = true,
                              .feature = 1u << 5};

}  // namespace brevis::codec
