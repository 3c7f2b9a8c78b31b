// SPDX-License-Identifier: Apache-2.0
#include "support/random_program.h"

#include <algorithm>
#include <stdexcept>

#include "dsl/op.h"
#include "dsl/verify.h"

namespace brevis::test {
namespace {

using dsl::Expr;
using dsl::Node;
using dsl::OpId;
using dsl::OpSpec;

class Maker {
 public:
  Maker(Rng& rng, const ProgramShape& shape) : rng_(rng), shape_(shape), left_(shape.max_nodes) {}

  // A node of the spine that produces `words` words.
  Expr spine(unsigned width, uint64_t words, size_t depth) {
    if (!shape_.skeleton || left_ < 4) return region(width, depth);
    switch (rng_.below(10)) {
      case 0:
      case 1: return concat(width, words, depth);
      case 2:
      case 3: return repeat(width, words, depth);
      case 4:
        if (std::optional<Expr> ref = this->ref(width, words)) return *ref;
        break;
      case 5: return leaf(width, OpId::constant);
      case 6: return leaf(width, OpId::ramp);
      case 7:
        if (std::optional<Expr> based = this->based(width, depth)) return *based;
        break;
      default: break;
    }
    return region(width, depth);
  }

 private:
  Expr concat(unsigned width, uint64_t words, size_t depth) {
    const uint64_t least = std::max<uint64_t>(1, shape_.min_part_words);
    if (depth >= shape_.max_depth || words < 2 * least) return region(width, depth);
    take();
    Expr expr{OpId::concat, {}, {}};
    uint64_t rest = words;
    for (uint64_t parts = 1 + rng_.below(3); parts > 0 && rest >= 2 * least; --parts) {
      const uint64_t part = least + rng_.below(rest - 2 * least + 1);
      expr.params.push_back(part);
      expr.children.push_back(spine(width, part, depth + 1));
      rest -= part;
    }
    expr.children.push_back(spine(width, rest, depth + 1));
    return expr;
  }

  Expr repeat(unsigned width, uint64_t words, size_t depth) {
    std::vector<uint64_t> factors;
    for (uint64_t k = 2; k <= 1000 && k <= words; ++k)
      if (words % k == 0 && words / k >= shape_.min_part_words) factors.push_back(k);
    if (words > 1 && shape_.min_part_words <= 1) factors.push_back(words);
    if (depth >= shape_.max_depth || factors.empty()) return region(width, depth);
    take();
    const uint64_t k = factors[rng_.below(factors.size())];
    return {OpId::repeat, {k}, {spine(width, words / k, depth + 1)}};
  }

  std::optional<Expr> ref(unsigned width, uint64_t words) {
    if (width % 8 != 0 || words > shape_.original_bytes / (width / 8)) return std::nullopt;
    take();
    return Expr{OpId::ref, {rng_.below(shape_.original_bytes - words * (width / 8) + 1)}, {}};
  }

  std::optional<Expr> based(unsigned width, size_t depth) {
    if (!shape_.bases || bases_ == dsl::kMaxBases || width < 8 || (width & (width - 1)) != 0) return std::nullopt;
    ++bases_;
    take();
    const Expr base{OpId::base, {}, {}};
    const auto step = [&] { return region(width, depth + 1); };
    switch (rng_.below(4)) {
      case 0: return base;
      case 2: {
        const uint64_t bits = 2 + rng_.below(std::min(width, 16u) - 1);
        return Expr{
            OpId::update, {rng_.below(4), rng_.below(width - bits + 1), bits}, {base, step(), step(), step(), step()}};
      }
      case 1: return Expr{OpId::patch, {}, {base, literal(dsl::kPositionBits), region(width, depth + 1)}};
      default: return Expr{OpId::combine, {rng_.below(4)}, {region(width, depth + 1), base}};
    }
  }

  // A region, or a part of one.
  Expr region(unsigned width, size_t depth) {
    if (depth < shape_.max_depth && left_ >= 8 && rng_.below(4) != 0)
      for (int tries = 0; tries < 8; ++tries) {
        const auto ops = dsl::all_ops();
        const OpSpec& spec = *ops[rng_.below(ops.size())];
        if (spec.id == OpId::literal || spec.id == OpId::base || spec.place == dsl::Place::skeleton ||
            !allowed(spec.id))
          continue;
        if (spec.place == dsl::Place::both && rng_.below(3) != 0) continue;
        if (std::optional<Expr> expr = inner(spec, width, depth)) return *expr;
      }
    return literal(width);
  }

  bool allowed(OpId id) const {
    if (!shape_.expresses_all) return true;
    switch (id) {
      case OpId::merge:
      case OpId::rank:
      case OpId::map:
      case OpId::scan:
      case OpId::offset:
      case OpId::select:
      case OpId::context:
      case OpId::transpose:
      case OpId::interleave:
      case OpId::runs:
      case OpId::combine:
      case OpId::patch:
      case OpId::update:
      case OpId::levels:
      case OpId::dequantise:
      case OpId::zeros: return true;
      default: return false;
    }
  }

  std::optional<Expr> inner(const OpSpec& spec, unsigned width, size_t depth) {
    Node node{spec.id, static_cast<uint8_t>(width), {}, {}};
    for (int tries = 0; tries < 40; ++tries) {
      size_t arity = guess(spec, width, node.params);
      if (arity > left_) continue;
      if (!spec.keywords.empty() && (node.params.empty() || node.params[0] >= spec.keywords.size())) continue;
      const auto widths = spec.child_widths(node, arity);
      if (!widths) continue;
      take();
      Expr expr{spec.id, node.params, {}};
      left_ -= std::min(left_, arity);  // kept back, so that the last child has a node as the first has
      for (const uint8_t child : *widths) {
        ++left_;
        expr.children.push_back(region(child, depth + 1));
      }
      return expr;
    }
    return std::nullopt;
  }

  // Parameters that may be right, and a number of children.
  size_t guess(const OpSpec& spec, unsigned width, std::vector<uint64_t>& params) {
    params.clear();
    switch (spec.id) {
      case OpId::merge: {
        unsigned rest = width;
        while (rest > 0 && params.size() < 5) {
          params.push_back(1 + rng_.below(rest));
          rest -= static_cast<unsigned>(params.back());
        }
        if (rest > 0) params.push_back(rest);
        return params.size();
      }
      case OpId::rank: params = {1 + rng_.below(rng_.below(2) ? 70 : 65535)}; return 3;
      case OpId::palette: params = {2 + rng_.below(rng_.below(2) ? 70 : 65535)}; return 1;
      case OpId::map:
        params = {rng_.below(spec.keywords.size()), rng_.below(2) ? word(width) : rng_.below(2)};
        return 1;
      case OpId::scan: params = {rng_.below(spec.keywords.size()), 1 + rng_.below(9)}; return 2;
      case OpId::context:
        params = {rng_.below(spec.keywords.size()), rng_.below(width), 1 + rng_.below(width)};
        for (uint64_t terms = 1 + rng_.below(4); terms > 0; --terms) {
          params.push_back(1 + rng_.below(rng_.below(2) ? 3 : 300));
          params.push_back(1 + rng_.below(4));
        }
        return 4;
      case OpId::offset:
      case OpId::select:
        params = {rng_.below(width), 1 + rng_.below(width)};
        for (uint64_t axes = 1 + rng_.below(3); axes > 0; --axes) {
          params.push_back(1 + rng_.below(rng_.below(2) ? 3 : 300));
          params.push_back(2 + rng_.below(rng_.below(2) ? 9 : 2000));
        }
        return spec.id == OpId::offset ? 1 : 4;
      case OpId::transpose: params = {2 + rng_.below(40), 2 + rng_.below(40)}; return 1;
      case OpId::cast: params = {rng_.below(spec.keywords.size())}; return 1;
      case OpId::interleave: return 2 + rng_.below(4);
      case OpId::constant: params = {word(width)}; return 0;
      case OpId::ramp: params = {word(width), word(width)}; return 0;
      case OpId::combine: params = {rng_.below(spec.keywords.size())}; return 2;
      case OpId::patch: return 3;
      case OpId::levels: {
        const uint64_t row = 1 + rng_.below(rng_.below(2) ? 9 : 900);
        params = {rng_.below(spec.keywords.size()), row, 1 + rng_.below(row), 1 + rng_.below(rng_.below(2) ? 3 : 500)};
        return 4;
      }
      case OpId::dequantise: {
        const uint64_t row = 1 + rng_.below(rng_.below(2) ? 40 : 900), type = width == 32 ? 0 : 1 + rng_.below(2);
        params = {rng_.below(spec.keywords.size()), type, row, 1 + rng_.below(row),
                  1 + rng_.below(rng_.below(2) ? 3 : 500)};
        return 3;
      }
      case OpId::update:
        params = {rng_.below(spec.keywords.size()), rng_.below(width), 2 + rng_.below(std::min(width, 16u))};
        return 5;
      case OpId::runs:
      case OpId::zeros: return 2;
      default: break;
    }
    for (uint64_t n = rng_.below(4); n > 0; --n) params.push_back(rng_.below(3) ? rng_.below(9) : word(width));
    if (!spec.keywords.empty() && !params.empty()) params[0] = rng_.below(spec.keywords.size());
    return rng_.below(5);
  }

  Expr leaf(unsigned width, OpId id) {
    take();
    Expr expr{id, {word(width)}, {}};
    if (id == OpId::ramp) expr.params.push_back(word(width));
    return expr;
  }

  Expr literal(unsigned width) {
    take();
    if (shape_.templates && rng_.below(3) == 0) return {OpId::literal, {}, {}};
    std::vector<uint64_t> ids;
    for (const codec::CodecSpec* codec : codec::all_codecs())
      if (codec->accepts(width) && (shape_.codecs.empty() || std::ranges::count(shape_.codecs, codec->id) > 0))
        ids.push_back(static_cast<uint64_t>(codec->id));
    if (ids.empty()) throw std::logic_error("no codec of the shape accepts " + std::to_string(width) + " bits");
    return {OpId::literal, {ids[rng_.below(ids.size())]}, {}};
  }

  // Small, large and special words.
  uint64_t word(unsigned width) {
    const uint64_t mask = bits::low_mask(width);
    switch (rng_.below(4)) {
      case 0: return rng_.below(4) & mask;
      case 1: return mask;
      default: return rng_.next() & mask;
    }
  }

  void take() { left_ -= left_ > 0; }

  Rng& rng_;
  const ProgramShape& shape_;
  size_t bases_ = 0;
  size_t left_;  // nodes that may still be made
};

}  // namespace

dsl::Expr random_expr(Rng& rng, unsigned width, uint64_t words, const ProgramShape& shape) {
  // The bound on a frame's memory is the one rule that drawing node by node does not see.
  for (;;) {
    Expr expr = Maker(rng, shape).spine(width, words, 1);
    const auto program = dsl::build(width, expr, shape.templates);
    if (program) return expr;
    if (program.error().message().find("bytes of memory") == std::string::npos)
      throw std::logic_error("the gate refused a random program: " + program.error().message());
  }
}

dsl::Program random_program(Rng& rng, unsigned width, uint64_t words, const ProgramShape& shape) {
  return *dsl::build(width, random_expr(rng, width, words, shape), shape.templates);
}

unsigned random_width(Rng& rng) { return 8u << rng.below(4); }

}  // namespace brevis::test
