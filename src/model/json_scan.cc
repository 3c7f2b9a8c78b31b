// SPDX-License-Identifier: Apache-2.0
#include "model/json_scan.h"

#include <array>
#include <charconv>
#include <cstring>

namespace brevis::model {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Four hex digits at `at`, which the caller knows to be there.
uint32_t hex4(std::string_view text, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 4 | static_cast<uint32_t>(hex_value(text[at + i]));
  return value;
}

bool is_hex4(std::string_view text, size_t at) {
  if (text.size() - at < 4) return false;
  for (size_t i = 0; i < 4; ++i)
    if (hex_value(text[at + i]) < 0) return false;
  return true;
}

bool is_high(uint32_t unit) { return unit >= 0xd800 && unit < 0xdc00; }
bool is_low(uint32_t unit) { return unit >= 0xdc00 && unit < 0xe000; }

void append_utf8(std::string& out, uint32_t point) {
  if (point < 0x80) {
    out += static_cast<char>(point);
  } else if (point < 0x800) {
    out += static_cast<char>(0xc0 | point >> 6);
    out += static_cast<char>(0x80 | (point & 0x3f));
  } else if (point < 0x10000) {
    out += static_cast<char>(0xe0 | point >> 12);
    out += static_cast<char>(0x80 | (point >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (point & 0x3f));
  } else {
    out += static_cast<char>(0xf0 | point >> 18);
    out += static_cast<char>(0x80 | (point >> 12 & 0x3f));
    out += static_cast<char>(0x80 | (point >> 6 & 0x3f));
    out += static_cast<char>(0x80 | (point & 0x3f));
  }
}

// Bytes of a string that need a closer look: quote, backslash, control characters.
constexpr std::array<bool, 256> kStringStops = [] {
  std::array<bool, 256> stops{};
  for (size_t c = 0; c < 0x20; ++c) stops[c] = true;
  stops['"'] = stops['\\'] = true;
  return stops;
}();

}  // namespace

JsonToken JsonScanner::fail(size_t offset, std::string_view why) {
  ended_early_ = offset >= text_.size();
  start_ = offset;
  fault_ = why;
  token_text_ = {};
  state_ = State::broken;
  return JsonToken::fault;
}

bool JsonScanner::skip_space() {
  while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  return at_ < text_.size();
}

JsonToken JsonScanner::next() {
  if (state_ == State::broken) return JsonToken::fault;
  const bool more = skip_space();
  start_ = at_;
  token_text_ = {};
  switch (state_) {
    case State::done:
      if (more) return fail(at_, "nothing but white space after the value");
      return JsonToken::end;
    case State::value: return more ? scan_value() : fail(at_, "a value");
    case State::first_element:
      if (more && text_[at_] == ']') return close(JsonToken::end_array);
      return more ? scan_value() : fail(at_, "a value or ']'");
    case State::first_key:
      if (more && text_[at_] == '}') return close(JsonToken::end_object);
      return more ? scan_key() : fail(at_, "a key in quotes or '}'");
    case State::after_value: break;
    case State::broken: return JsonToken::fault;
  }
  const bool array = in_array_.back();
  if (more && text_[at_] == (array ? ']' : '}')) return close(array ? JsonToken::end_array : JsonToken::end_object);
  if (!more || text_[at_] != ',') return fail(at_, array ? "',' or ']'" : "',' or '}'");
  ++at_;
  const bool more_after = skip_space();
  start_ = at_;
  if (array) return more_after ? scan_value() : fail(at_, "a value");
  return more_after ? scan_key() : fail(at_, "a key in quotes");
}

JsonToken JsonScanner::scan_key() {
  if (text_[at_] != '"') return fail(at_, "a key in quotes");
  if (scan_string(JsonToken::key) == JsonToken::fault) return JsonToken::fault;
  const size_t key_start = start_;
  if (!skip_space() || text_[at_] != ':') return fail(at_, "':'");
  ++at_;
  start_ = key_start;
  state_ = State::value;
  return JsonToken::key;
}

JsonToken JsonScanner::scan_value() {
  const char c = text_[at_];
  switch (c) {
    case '{': return open(false);
    case '[': return open(true);
    case '"':
      if (scan_string(JsonToken::string) == JsonToken::fault) return JsonToken::fault;
      finish_value();
      return JsonToken::string;
    case 't': return scan_word("true", JsonToken::literal_true);
    case 'f': return scan_word("false", JsonToken::literal_false);
    case 'n': return scan_word("null", JsonToken::literal_null);
    default: break;
  }
  if (c == '-' || is_digit(c)) return scan_number();
  return fail(at_, "a value");
}

JsonToken JsonScanner::open(bool array) {
  in_array_.push_back(array);
  ++at_;
  state_ = array ? State::first_element : State::first_key;
  return array ? JsonToken::begin_array : JsonToken::begin_object;
}

JsonToken JsonScanner::close(JsonToken token) {
  in_array_.pop_back();
  ++at_;
  finish_value();
  return token;
}

JsonToken JsonScanner::scan_word(std::string_view word, JsonToken token) {
  const std::string_view here = text_.substr(at_, word.size());
  if (here != word) return fail(word.starts_with(here) ? text_.size() : at_, "a value");
  at_ += word.size();
  token_text_ = here;
  finish_value();
  return token;
}

JsonToken JsonScanner::scan_string(JsonToken kind) {
  lone_surrogate_ = escaped_ = false;
  const size_t body = ++at_;
  for (;;) {
    while (at_ < text_.size() && !kStringStops[static_cast<uint8_t>(text_[at_])]) ++at_;
    if (at_ >= text_.size()) return fail(at_, "the closing quote of a string");
    const char c = text_[at_];
    if (c == '"') break;
    if (c != '\\') return fail(at_, "no raw control character in a string");
    if (!scan_escape()) return JsonToken::fault;
  }
  token_text_ = text_.substr(body, at_ - body);
  ++at_;
  return kind;
}

// At a backslash. Pairs of surrogates are taken together, so that what is left over is known to be alone.
bool JsonScanner::scan_escape() {
  escaped_ = true;
  if (at_ + 1 >= text_.size()) return fail(text_.size(), "an escape"), false;
  const char c = text_[at_ + 1];
  if (c != 'u') {
    if (std::strchr("\"\\/bfnrt", c) == nullptr || c == '\0') return fail(at_, "a known escape"), false;
    at_ += 2;
    return true;
  }
  if (!is_hex4(text_, at_ + 2)) return fail(text_.size() - at_ < 6 ? text_.size() : at_, "four hex digits"), false;
  const uint32_t unit = hex4(text_, at_ + 2);
  at_ += 6;
  if (is_low(unit)) lone_surrogate_ = true;
  if (!is_high(unit)) return true;
  if (text_.substr(at_, 2) == "\\u" && is_hex4(text_, at_ + 2) && is_low(hex4(text_, at_ + 2)))
    at_ += 6;
  else
    lone_surrogate_ = true;
  return true;
}

JsonToken JsonScanner::scan_number() {
  if (text_[at_] == '-') ++at_;
  const auto digits = [&] {
    const size_t from = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    return at_ > from;
  };
  if (at_ < text_.size() && text_[at_] == '0') {
    ++at_;
    if (at_ < text_.size() && is_digit(text_[at_])) return fail(start_, "a number without leading zeros");
  } else if (!digits()) {
    return fail(at_, "a digit");
  }
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    if (!digits()) return fail(at_, "a digit");
  }
  if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '+' || text_[at_] == '-')) ++at_;
    if (!digits()) return fail(at_, "a digit");
  }
  token_text_ = text_.substr(start_, at_ - start_);
  finish_value();
  return JsonToken::number;
}

std::string JsonScanner::unescaped() const {
  if (!escaped_) return std::string(token_text_);
  std::string out;
  out.reserve(token_text_.size());
  for (size_t i = 0; i < token_text_.size();) {
    if (token_text_[i] != '\\') {
      out += token_text_[i++];
      continue;
    }
    const char c = token_text_[i + 1];
    i += 2;
    switch (c) {
      case 'b': out += '\b'; break;
      case 'f': out += '\f'; break;
      case 'n': out += '\n'; break;
      case 'r': out += '\r'; break;
      case 't': out += '\t'; break;
      case 'u': {
        uint32_t point = hex4(token_text_, i);
        i += 4;
        if (is_high(point) && token_text_.substr(i, 2) == "\\u" && is_low(hex4(token_text_, i + 2))) {
          point = 0x10000 + ((point - 0xd800) << 10) + (hex4(token_text_, i + 2) - 0xdc00);
          i += 6;
        }
        append_utf8(out, is_high(point) || is_low(point) ? 0xfffd : point);
        break;
      }
      default: out += c;
    }
  }
  return out;
}

bool JsonScanner::skip_value(Oddities& oddities) { return skip_rest(next(), oddities); }

bool JsonScanner::skip_rest(JsonToken first, Oddities& oddities) {
  const bool container = first == JsonToken::begin_object || first == JsonToken::begin_array;
  const size_t outside = depth() - (container ? 1 : 0);
  for (JsonToken token = first;; token = next()) {
    switch (token) {
      case JsonToken::fault:
      case JsonToken::end: return false;
      case JsonToken::key:
      case JsonToken::string:
        if (lone_surrogate_ && !oddities.surrogate_offset) oddities.surrogate_offset = start_;
        break;
      case JsonToken::number:
        if (!oddities.range_offset && json_exceeds_double(token_text_)) oddities.range_offset = start_;
        break;
      case JsonToken::begin_object:
      case JsonToken::begin_array:
        if (depth() > oddities.depth_limit && oddities.deepest <= oddities.depth_limit)
          oddities.deepest_offset = start_;
        oddities.deepest = std::max(oddities.deepest, depth());
        break;
      default: break;
    }
    if (token != JsonToken::key && depth() == outside) return true;
  }
}

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(text.data());
  const size_t size = text.size();
  const auto follows = [&](size_t at, uint8_t low, uint8_t high) {
    return at < size && bytes[at] >= low && bytes[at] <= high;
  };
  size_t i = 0;
  while (i < size) {
    if (size - i >= 8) {  // headers are ASCII almost throughout: eight bytes at a time
      uint64_t word;
      std::memcpy(&word, bytes + i, 8);
      if ((word & 0x8080808080808080) == 0) {
        i += 8;
        continue;
      }
    }
    const uint8_t lead = bytes[i];
    if (lead < 0x80) {
      ++i;
    } else if (lead >= 0xc2 && lead < 0xe0) {
      if (!follows(i + 1, 0x80, 0xbf)) return i;
      i += 2;
    } else if (lead >= 0xe0 && lead < 0xf0) {
      const uint8_t low = lead == 0xe0 ? 0xa0 : 0x80, high = lead == 0xed ? 0x9f : 0xbf;
      if (!follows(i + 1, low, high) || !follows(i + 2, 0x80, 0xbf)) return i;
      i += 3;
    } else if (lead >= 0xf0 && lead < 0xf5) {
      const uint8_t low = lead == 0xf0 ? 0x90 : 0x80, high = lead == 0xf4 ? 0x8f : 0xbf;
      if (!follows(i + 1, low, high) || !follows(i + 2, 0x80, 0xbf) || !follows(i + 3, 0x80, 0xbf)) return i;
      i += 4;
    } else {
      return i;
    }
  }
  return std::nullopt;
}

std::optional<uint64_t> json_unsigned(std::string_view number) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc() || end != number.data() + number.size()) return std::nullopt;
  return value;
}

bool json_exceeds_double(std::string_view number) {
  if (number.size() < 300 && number.find_first_of("eE") == std::string_view::npos) return false;
  double value = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), value);
  if (error != std::errc::result_out_of_range) return false;
  // Out of range is said of numbers too small as well; those read as zero. Where is the first digit that counts?
  const size_t exponent_at = number.find_first_of("eE");
  const std::string_view mantissa = number.substr(0, exponent_at);
  const size_t point = std::min(mantissa.find('.'), mantissa.size());
  const size_t first = mantissa.find_first_of("123456789");
  if (first == std::string_view::npos) return false;
  if (exponent_at == std::string_view::npos) return first < point;
  std::string_view digits = number.substr(exponent_at + 1);
  const bool negative = digits[0] == '-';
  if (!is_digit(digits[0])) digits.remove_prefix(1);
  uint64_t exponent = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), exponent).ec != std::errc() ||
      exponent > uint64_t{1} << 40)
    return !negative;
  const int64_t place = first < point ? static_cast<int64_t>(point - first) : -static_cast<int64_t>(first - point);
  return place + (negative ? -static_cast<int64_t>(exponent) : static_cast<int64_t>(exponent)) > 0;
}

std::string quoted(std::string_view name) {
  constexpr size_t kLongest = 120;
  const bool cut = name.size() > kLongest;
  if (cut) {
    size_t end = kLongest;
    while (end > 0 && (static_cast<uint8_t>(name[end]) & 0xc0) == 0x80) --end;  // not through a character
    name = name.substr(0, end);
  }
  std::string out = "'";
  for (const char c : name) {
    if (static_cast<uint8_t>(c) < 0x20 || c == 0x7f) {
      constexpr char kHex[] = "0123456789abcdef";
      out += "\\x";
      out += kHex[static_cast<uint8_t>(c) >> 4];
      out += kHex[c & 15];
    } else {
      if (c == '\'' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + (cut ? "...'" : "'");
}

}  // namespace brevis::model
