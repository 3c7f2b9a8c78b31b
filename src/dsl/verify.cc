// SPDX-License-Identifier: Apache-2.0
#include "dsl/verify.h"

#include <algorithm>
#include <numeric>

#include "dsl/op.h"

namespace brevis::dsl {
namespace {

Error refuse(std::string rule) { return make_error(Errc::invalid_argument, std::move(rule)); }

std::string count_of(uint64_t n, const char* what) { return std::to_string(n) + " " + what; }

}  // namespace

// Turns an expression into a program in one walk, parents before children, so that every node is checked with its
// width known and nothing is allocated for nodes beyond the limits.
class ProgramBuilder {
 public:
  explicit ProgramBuilder(bool templates) : templates_(templates) {}

  Result<Program> build(unsigned width, const Expr& expr) {
    if (width < 1 || width > 64) return refuse("words of " + count_of(width, "bits: 1 to 64 are possible"));
    BREVIS_TRY(add(expr, width, 1, -1, true));
    for (uint32_t region = 0; region < program_.regions_.size(); ++region) {
      program_.regions_[region].period = period_of(region);
      BREVIS_TRY(check_scratch(region));
    }
    return std::move(program_);
  }

 private:
  // `in_step`: word i of the node's stream stands for word i of its region's.
  Status add(const Expr& expr, unsigned width, size_t depth, int32_t region, bool in_step) {
    if (depth > kMaxDepth) return refuse("the program is deeper than " + count_of(kMaxDepth, "nodes"));
    if (program_.nodes_.size() >= kMaxNodes) return refuse("the program has more than " + count_of(kMaxNodes, "nodes"));
    const uint32_t at = static_cast<uint32_t>(program_.nodes_.size());
    const OpSpec* spec = find_op(static_cast<uint64_t>(expr.op));
    if (!spec)
      return make_error(Errc::unsupported, "operator " + std::to_string(static_cast<unsigned>(expr.op)) + " (node " +
                                               std::to_string(at) + ") is not known to this build");
    auto in_node = [&](Error error) {
      return std::move(error).within(std::string(spec->name) + " (node " + std::to_string(at) + ")");
    };
    if (Status status = check_node(*spec, expr, region); !status) return in_node(std::move(status).error());

    Node node{expr.op, static_cast<uint8_t>(width), expr.params, {}};
    Result<std::vector<uint8_t>> widths = spec->child_widths(node, expr.children.size());
    if (!widths) return in_node(std::move(widths).error());
    if (Status status = check_widths(*spec, *widths, expr.children.size()); !status)
      return in_node(std::move(status).error());

    node.region = enter_region(*spec, at, region);
    if (expr.op == OpId::base)
      if (Status status = take_base(node, at, in_step); !status) return in_node(std::move(status).error());
    node.slot = take_slot(*spec, node, at);
    program_.uses_ref_ |= expr.op == OpId::ref;
    program_.features_ |= spec->feature;
    if (spec->slot == SlotKind::codec_table && !expr.params.empty())
      program_.features_ |= codec::find_codec(expr.params[0])->feature;
    const int32_t below = node.region;
    program_.nodes_.push_back(std::move(node));
    for (size_t i = 0; i < expr.children.size(); ++i) {
      const uint32_t child = static_cast<uint32_t>(program_.nodes_.size());
      BREVIS_TRY(add(expr.children[i], (*widths)[i], depth + 1, below, in_step && (below < 0 || i < spec->in_step)));
      program_.nodes_[at].children.push_back(child);
    }
    program_.nodes_[at].end = static_cast<uint32_t>(program_.nodes_.size());
    return {};
  }

  Status check_node(const OpSpec& spec, const Expr& expr, int32_t region) const {
    if (expr.params.size() > kMaxParams)
      return refuse(count_of(expr.params.size(), "parameters: at most ") + std::to_string(kMaxParams) +
                    " are possible");
    if (expr.children.size() > kMaxNodes) return refuse("more children than a program may have nodes");
    if (region >= 0 && spec.place == Place::skeleton)
      return refuse("may stand at the root or below concat and repeat only, not inside a region");
    if (spec.slot == SlotKind::codec_table) return check_codec(expr);
    if (!spec.keywords.empty() && !expr.params.empty() && expr.params[0] >= spec.keywords.size())
      return make_error(Errc::unsupported,
                        "form " + std::to_string(expr.params[0]) + " of this operator is not known to this build");
    return {};
  }

  Status check_codec(const Expr& expr) const {
    if (expr.params.empty() && !templates_) return refuse("names no codec, which only a template may leave open");
    if (!expr.params.empty() && !codec::find_codec(expr.params[0]))
      return make_error(Errc::unsupported, "codec " + std::to_string(expr.params[0]) + " is not known to this build");
    return {};
  }

  static Status check_widths(const OpSpec& spec, const std::vector<uint8_t>& widths, size_t arity) {
    if (widths.size() != arity)
      return make_error(Errc::internal, std::string(spec.name) + " gives " + count_of(widths.size(), "widths for ") +
                                            count_of(arity, "children"));
    for (const uint8_t width : widths)
      if (width < 1 || width > 64) return refuse("a child of " + count_of(width, "bits a word: 1 to 64 are possible"));
    return {};
  }

  // The region that the node belongs to: the parent's, a new one, or none on the spine.
  int32_t enter_region(const OpSpec& spec, uint32_t at, int32_t region) {
    if (region >= 0 || spec.place != Place::region) return region;
    program_.regions_.push_back({at, 1});
    return static_cast<int32_t>(program_.regions_.size() - 1);
  }

  Status take_base(Node& node, uint32_t at, bool in_step) {
    if (program_.bases_.size() >= kMaxBases) return refuse("more than " + count_of(kMaxBases, "of them in a program"));
    if (node.region >= 0) {
      if (!in_step) return refuse("its words do not stand in the places of its region's");
      Region& region = program_.regions_[static_cast<size_t>(node.region)];
      if (region.bases++ == 0) region.first_base = static_cast<uint32_t>(program_.bases_.size());
    }
    node.base = static_cast<int32_t>(program_.bases_.size());
    program_.bases_.push_back(at);
    return {};
  }

  int32_t take_slot(const OpSpec& spec, const Node& node, uint32_t at) {
    std::optional<codec::CodecId> codec;
    if (spec.slot == SlotKind::none) return -1;
    if (spec.slot == SlotKind::codec_table) {
      const codec::CodecSpec* chosen = node.params.empty() ? nullptr : codec::find_codec(node.params[0]);
      if (!chosen || !chosen->needs_table) return -1;
      codec = chosen->id;
    }
    program_.slots_.push_back({at, codec});
    return static_cast<int32_t>(program_.slots_.size() - 1);
  }

  // Most words that a frame of this region can hold.
  uint64_t most_words(const Region& region) const { return max_frame_words(program_.nodes_[region.root].width); }

  // A period that outgrows every possible frame is no use to anybody, so it is left out.
  uint64_t period_of(uint32_t index) const {
    const Region& region = program_.regions_[index];
    uint64_t period = 1;
    for (uint32_t at = region.root; at < program_.nodes_[region.root].end; ++at) {
      const OpSpec& spec = spec_of(program_.nodes_[at].op);
      const uint64_t own = spec.period ? spec.period(program_.nodes_[at]) : 1;
      if (own < 2 || own > most_words(region)) continue;
      const uint64_t both = period / std::gcd(period, own) * own;  // both factors are far below 2^32
      if (both <= most_words(region)) period = both;
    }
    return period;
  }

  // What the largest frame could need when every data-dependent stream is as long as it can be.
  Status check_scratch(uint32_t index) const {
    const Region& region = program_.regions_[index];
    const uint32_t end = program_.nodes_[region.root].end;
    std::vector<uint64_t> words(end - region.root, 0);
    std::vector<uint64_t> of_children;
    words[0] = most_words(region);
    uint64_t bytes = 0;
    for (uint32_t at = region.root; at < end; ++at) {
      const Node& node = program_.nodes_[at];
      const uint64_t n = words[at - region.root];
      bytes += std::min(n, kMaxFrameScratchBytes) * bits::lane_bytes(node.width);
      if (bytes > kMaxFrameScratchBytes)
        return refuse("one frame could need more than " + count_of(kMaxFrameScratchBytes, "bytes of memory") +
                      " (region " + std::to_string(index) + "): too many or too wide streams");
      const OpSpec& spec = spec_of(node.op);
      const std::vector<uint64_t> counts(spec.counts, n);
      of_children.assign(node.children.size(), n);
      if (!spec.child_lengths(node, n, counts, of_children)) of_children.assign(node.children.size(), n);
      for (size_t i = 0; i < of_children.size(); ++i) words[node.children[i] - region.root] = of_children[i];
    }
    return {};
  }

  const bool templates_;
  Program program_;
};

Result<Program> build(unsigned width, const Expr& expr, bool templates) {
  return ProgramBuilder(templates).build(width, expr);
}

}  // namespace brevis::dsl
