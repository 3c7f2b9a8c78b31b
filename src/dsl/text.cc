// SPDX-License-Identifier: Apache-2.0
#include "dsl/text.h"

#include "dsl/op.h"
#include "dsl/verify.h"

namespace brevis::dsl {
namespace {

// The word for a first parameter, empty where the operator writes it as a number.
std::string_view word_of(const OpSpec& spec, uint64_t param) {
  if (spec.slot == SlotKind::codec_table) {
    const codec::CodecSpec* codec = codec::find_codec(param);
    return codec ? codec->name : std::string_view{};
  }
  return param < spec.keywords.size() ? spec.keywords[param] : std::string_view{};
}

bool writes_words(const OpSpec& spec) { return spec.slot == SlotKind::codec_table || !spec.keywords.empty(); }

std::optional<uint64_t> param_of(const OpSpec& spec, std::string_view word) {
  if (spec.slot == SlotKind::codec_table) {
    const codec::CodecSpec* codec = codec::find_codec(word);
    return codec ? std::optional<uint64_t>(static_cast<uint64_t>(codec->id)) : std::nullopt;
  }
  for (uint64_t i = 0; i < spec.keywords.size(); ++i)
    if (spec.keywords[i] == word) return i;
  return std::nullopt;
}

void append(const Expr& expr, std::string& out) {
  const OpSpec* spec = find_op(static_cast<uint64_t>(expr.op));
  out += spec ? std::string(spec->name) : "op" + std::to_string(static_cast<unsigned>(expr.op));
  if (expr.params.empty() && expr.children.empty()) return;
  out += '(';
  for (size_t i = 0; i < expr.params.size(); ++i) {
    if (i > 0) out += ", ";
    const std::string_view word = i == 0 && spec ? word_of(*spec, expr.params[0]) : std::string_view{};
    out += word.empty() ? std::to_string(expr.params[i]) : std::string(word);
  }
  if (!expr.params.empty() && !expr.children.empty()) out += "; ";
  for (size_t i = 0; i < expr.children.size(); ++i) {
    if (i > 0) out += ", ";
    append(expr.children[i], out);
  }
  out += ')';
}

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// Recursive descent over
//   expr  = NAME [ "(" [ first { "," NUMBER } [ ";" ] ] [ expr { "," expr } ] ")" ]     first = NUMBER or a word
// A word right after "(" is a parameter exactly when the operator writes its first parameter as words, so no spelling
// means two things.
class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Result<Expr> parse(size_t depth) {
    skip_space();
    const size_t start = at_;
    if (depth > kMaxDepth) return fail(start, "the program is deeper than " + std::to_string(kMaxDepth) + " operators");
    if (++nodes_ > kMaxNodes)
      return fail(start, "the program has more than " + std::to_string(kMaxNodes) + " operators");
    const std::string_view name = word();
    if (name.empty()) return fail(start, "expected an operator" + found());
    const OpSpec* spec = find_op(name);
    if (!spec) return fail(start, "expected an operator, '" + quotable(name) + "' is none");
    Expr expr{spec->id, {}, {}};
    if (!accept('(')) return expr;
    BREVIS_ASSIGN(const bool children, params(*spec, expr.params));
    while (children) {
      BREVIS_ASSIGN(Expr child, parse(depth + 1));
      expr.children.push_back(std::move(child));
      if (accept(',')) continue;
      if (accept(')')) break;
      return fail(at_, "expected ',' or ')' after an operand of " + std::string(spec->name) + found());
    }
    return expr;
  }

  Result<unsigned> type() {
    skip_space();
    const size_t start = at_;
    if (at_ < text_.size() && text_[at_] == 'u')
      ++at_;
    else
      return fail(start, "expected a type such as u16" + found());
    BREVIS_ASSIGN(const uint64_t width, number());
    if (width < 1 || width > 64) return fail(start, "expected a type from u1 to u64");
    return static_cast<unsigned>(width);
  }

  Status expect(char c) {
    if (!accept(c)) return fail(at_, std::string("expected '") + c + "'" + found());
    return {};
  }

  Status end() {
    skip_space();
    if (at_ != text_.size()) return fail(at_, "expected the end of the program" + found());
    return {};
  }

 private:
  // Parameters up to and with the ';' or ')' that ends them; whether children follow.
  Result<bool> params(const OpSpec& spec, std::vector<uint64_t>& params) {
    skip_space();
    const bool words = writes_words(spec);
    if (at_ < text_.size() && is_letter(text_[at_]) && !words) return true;
    if (words) {
      const size_t start = at_;
      const std::string_view name = word();
      const std::optional<uint64_t> param = param_of(spec, name);
      if (!param)
        return fail(start,
                    "expected one of " + words_of(spec) + (name.empty() ? found() : ", not '" + quotable(name) + "'"));
      params.push_back(*param);
    } else {
      BREVIS_ASSIGN(const uint64_t value, number());
      params.push_back(value);
    }
    while (accept(',')) {
      const size_t start = at_;
      if (params.size() == kMaxParams) return fail(start, "more than " + std::to_string(kMaxParams) + " parameters");
      BREVIS_ASSIGN(const uint64_t value, number());
      params.push_back(value);
    }
    if (accept(';')) return true;
    if (accept(')')) return false;
    return fail(at_, "expected ',', ';' or ')' after a parameter of " + std::string(spec.name) + found());
  }

  Result<uint64_t> number() {
    skip_space();
    const size_t start = at_;
    const bool hex = text_.substr(at_, 2) == "0x";
    if (hex) at_ += 2;
    const size_t digits = at_;
    uint64_t value = 0;
    for (; at_ < text_.size() && (is_digit(text_[at_]) || is_letter(text_[at_])); ++at_) {
      const int digit = digit_of(text_[at_], hex);
      if (digit < 0) return fail(at_, "expected a number" + found());
      const uint64_t base = hex ? 16 : 10, d = static_cast<uint64_t>(digit);
      if (value > (UINT64_MAX - d) / base) return fail(start, "the number has more than 64 bits");
      value = value * base + d;
    }
    if (at_ == digits) return fail(at_, "expected a number" + found());
    if (!hex && at_ - digits > 1 && text_[digits] == '0') return fail(start, "a number starts with a superfluous 0");
    return value;
  }

  static int digit_of(char c, bool hex) {
    if (is_digit(c)) return c - '0';
    if (hex && c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (hex && c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
  }

  std::string_view word() {
    skip_space();
    const size_t start = at_;
    if (at_ < text_.size() && is_letter(text_[at_]))
      while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    return text_.substr(start, at_ - start);
  }

  bool accept(char c) {
    skip_space();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }

  static std::string words_of(const OpSpec& spec) {
    std::string out;
    auto add = [&](std::string_view word) { (out += out.empty() ? "" : ", ") += word; };
    if (spec.slot == SlotKind::codec_table)
      for (const codec::CodecSpec* codec : codec::all_codecs()) add(codec->name);
    else
      for (const std::string_view word : spec.keywords) add(word);
    return out;
  }

  // Names may be as long as the input; an error message need not be.
  static std::string quotable(std::string_view name) {
    return std::string(name.substr(0, 32)) + (name.size() > 32 ? "..." : "");
  }

  std::string found() const {
    if (at_ >= text_.size()) return ", found the end";
    const char c = text_[at_];
    if (c < 0x20 || c > 0x7e) return ", found byte " + std::to_string(static_cast<unsigned char>(c));
    return std::string(", found '") + c + "'";
  }

  static Error fail(size_t at, std::string what) {
    return make_error(Errc::invalid_argument, "column " + std::to_string(at + 1) + ": " + std::move(what));
  }

  std::string_view text_;
  size_t at_ = 0;
  size_t nodes_ = 0;
};

}  // namespace

std::string print(const Expr& expr) {
  std::string out;
  append(expr, out);
  return out;
}

std::string print(const Program& program) {
  std::string out = "u";
  out += std::to_string(program.width());
  out += " = ";
  append(program.expr(), out);
  return out;
}

Result<Expr> parse_expr(std::string_view text) {
  Parser parser(text);
  BREVIS_ASSIGN(Expr expr, parser.parse(1));
  BREVIS_TRY(parser.end());
  return expr;
}

Result<Program> parse_program(std::string_view text, bool templates) {
  Parser parser(text);
  BREVIS_ASSIGN(const unsigned width, parser.type());
  BREVIS_TRY(parser.expect('='));
  BREVIS_ASSIGN(const Expr expr, parser.parse(1));
  BREVIS_TRY(parser.end());
  return build(width, expr, templates);
}

}  // namespace brevis::dsl
