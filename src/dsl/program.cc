// SPDX-License-Identifier: Apache-2.0
#include "dsl/program.h"

#include "dsl/op.h"

namespace brevis::dsl {
namespace {

Expr expr_of(const std::vector<Node>& nodes, uint32_t at) {
  Expr expr{nodes[at].op, nodes[at].params, {}};
  expr.children.reserve(nodes[at].children.size());
  for (const uint32_t child : nodes[at].children) expr.children.push_back(expr_of(nodes, child));
  return expr;
}

// Words of every node on the spine and of every region's root; others keep 0.
Result<std::vector<uint64_t>> spine_lengths(const Program& program, uint64_t words) {
  const std::vector<Node>& nodes = program.nodes();
  // Every byte position of the stream must be a number of 64 bits, whatever the width.
  if (words > UINT64_MAX / 8) return make_error(Errc::corrupt, "a stream of " + std::to_string(words) + " words");

  std::vector<uint64_t> of_node(nodes.size());
  std::vector<uint64_t> of_children;
  of_node[0] = words;
  for (uint32_t at = 0; at < nodes.size();) {
    const Node& node = nodes[at];
    if (node.region >= 0) {  // a region's root, since the walk steps over the rest of it
      at = node.end;
      continue;
    }
    const OpSpec& spec = spec_of(node.op);
    of_children.assign(node.children.size(), 0);
    if (Status status = spec.child_lengths(node, of_node[at], {}, of_children); !status)
      return std::move(status).error().within(std::string(spec.name) + " (node " + std::to_string(at) + ")");
    for (size_t i = 0; i < of_children.size(); ++i) of_node[node.children[i]] = of_children[i];
    ++at;
  }
  return of_node;
}

}  // namespace

Expr Program::expr() const { return expr_of(nodes_, 0); }

Result<std::vector<uint64_t>> region_lengths(const Program& program, uint64_t words) {
  BREVIS_ASSIGN(const std::vector<uint64_t> of_node, spine_lengths(program, words));
  std::vector<uint64_t> lengths;
  for (const Region& region : program.regions()) lengths.push_back(of_node[region.root]);
  return lengths;
}

Result<std::vector<uint64_t>> base_lengths(const Program& program, uint64_t words) {
  BREVIS_ASSIGN(const std::vector<uint64_t> of_node, spine_lengths(program, words));
  std::vector<uint64_t> lengths;
  for (const uint32_t at : program.bases()) {
    const Node& node = program.nodes()[at];
    lengths.push_back(of_node[node.region < 0 ? at : program.regions()[static_cast<size_t>(node.region)].root]);
  }
  return lengths;
}

}  // namespace brevis::dsl
