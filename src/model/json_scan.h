// SPDX-License-Identifier: Apache-2.0
//
// A pull scanner over JSON text (RFC 8259) that builds nothing: the caller asks for one token after the other and
// keeps what it wants, so a header of 100 MB costs no memory beyond its own bytes. A library parser would hide what the
// safetensors rules turn on: repeated keys, how a number was spelled, lone surrogates, and where in the text it was.
//
// The scanner holds the grammar only. What is grammatical but refused by a reader of safetensors (deep nesting, a lone
// surrogate) is reported beside the token, and the rule stays with the caller.
//
// Requires: text that is valid UTF-8 (find_invalid_utf8); Errors: the token `fault`, then fault() and offset() say why
// and where, and every later token is `fault` too. Threads: values. Owns: nothing; the text outlives the scanner.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace brevis::model {

enum class JsonToken : uint8_t {
  begin_object,
  end_object,
  begin_array,
  end_array,
  key,     // text() is between the quotes, escapes as written
  string,  // the same
  number,  // text() is the whole number as written
  literal_true,
  literal_false,
  literal_null,
  end,    // the value is complete and only white space follows
  fault,  // not JSON
};

class JsonScanner {
 public:
  explicit JsonScanner(std::string_view text) : text_(text) {}

  JsonToken next();
  // The caller cannot take the token that next() gave: makes it a fault.
  JsonToken reject(std::string_view expected) { return fail(start_, expected); }

  // Of the token that next() gave last: where it starts (a fault: where the text stops being JSON), and its text.
  size_t offset() const { return start_; }
  std::string_view text() const { return token_text_; }
  // Of a key or string: it holds a \uD800..\uDFFF that is no half of a pair.
  bool lone_surrogate() const { return lone_surrogate_; }
  // The text of a key or string with its escapes carried out; lone surrogates become U+FFFD.
  std::string unescaped() const;
  // What was expected, after `fault`.
  std::string_view fault() const { return fault_; }
  // Containers open right now.
  size_t depth() const { return in_array_.size(); }
  // Where the scanner stands: behind the last token.
  size_t position() const { return at_; }
  // The fault is that the text ended: with more text it could still be JSON.
  bool ended_early() const { return ended_early_; }

  // After a key, or at an element: passes over the value whole, without recursion. False after a fault. The deepest
  // nesting met, the first lone surrogate and the first number beyond the range of a double are added to `oddities`.
  struct Oddities {
    size_t deepest = 0, deepest_offset = 0;  // offset of the first container deeper than `depth_limit`
    size_t depth_limit = SIZE_MAX;
    std::optional<size_t> surrogate_offset, range_offset;
  };
  bool skip_value(Oddities& oddities);
  // The same when the value's first token has been taken already.
  bool skip_rest(JsonToken first, Oddities& oddities);

 private:
  enum class State : uint8_t { value, first_element, first_key, after_value, done, broken };

  JsonToken fail(size_t offset, std::string_view why);
  JsonToken scan_value();
  JsonToken scan_string(JsonToken kind);
  bool scan_escape();
  JsonToken scan_number();
  JsonToken scan_word(std::string_view word, JsonToken token);
  JsonToken open(bool array);
  JsonToken close(JsonToken token);
  JsonToken scan_key();
  void finish_value() { state_ = in_array_.empty() ? State::done : State::after_value; }
  bool skip_space();  // false at the end of the text

  std::string_view text_;
  size_t at_ = 0, start_ = 0;
  std::string_view token_text_, fault_;
  std::vector<bool> in_array_;  // one bit for each open container
  State state_ = State::value;
  bool lone_surrogate_ = false, escaped_ = false, ended_early_ = false;
};

// Where the text stops being UTF-8, if it does.
std::optional<size_t> find_invalid_utf8(std::string_view text);

// The number as an unsigned 64-bit integer, when it is spelled as one: digits only, no sign, point or exponent, in
// range.
std::optional<uint64_t> json_unsigned(std::string_view number);
// The number is beyond what a double can hold (1e999): readers that keep numbers as doubles refuse it.
bool json_exceeds_double(std::string_view number);

// A name for messages: in quotes, control characters and quotes escaped, cut after 120 bytes.
std::string quoted(std::string_view name);

}  // namespace brevis::model
