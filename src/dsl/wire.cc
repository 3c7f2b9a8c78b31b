// SPDX-License-Identifier: Apache-2.0
#include "dsl/wire.h"

#include "dsl/op.h"
#include "dsl/verify.h"

namespace brevis::dsl {
namespace {

// Reads nodes in pre-order. Counts are checked before anything is allocated for them, and the depth before the call
// stack grows; what the numbers mean is the gate's business.
class Reader {
 public:
  explicit Reader(ByteReader& in) : in_(in) {}

  Result<Expr> node(size_t depth) {
    if (depth > kMaxDepth) return make_error(Errc::corrupt, "program deeper than " + std::to_string(kMaxDepth));
    if (++nodes_ > kMaxNodes)
      return make_error(Errc::corrupt, "program of more than " + std::to_string(kMaxNodes) + " nodes");
    BREVIS_ASSIGN(const uint64_t id, in_.varint());
    if (!find_op(id))
      return make_error(Errc::unsupported, "operator " + std::to_string(id) + " is not known to this build");
    Expr expr;
    expr.op = static_cast<OpId>(id);
    BREVIS_ASSIGN(const uint64_t params, in_.varint_up_to(kMaxParams, "number of parameters"));
    for (uint64_t i = 0; i < params; ++i) {
      BREVIS_ASSIGN(const uint64_t param, in_.varint());
      expr.params.push_back(param);
    }
    BREVIS_ASSIGN(const uint64_t children, in_.varint_up_to(kMaxNodes, "number of children"));
    for (uint64_t i = 0; i < children; ++i) {
      BREVIS_ASSIGN(Expr child, node(depth + 1));
      expr.children.push_back(std::move(child));
    }
    return expr;
  }

 private:
  ByteReader& in_;
  size_t nodes_ = 0;
};

}  // namespace

void write_program(const Program& program, ByteVector& out) {
  ByteWriter writer(out);
  writer.fixed<uint8_t>(static_cast<uint8_t>(program.width()));
  for (const Node& node : program.nodes()) {  // index order is pre-order
    writer.varint(static_cast<uint64_t>(node.op));
    writer.varint(node.params.size());
    for (const uint64_t param : node.params) writer.varint(param);
    writer.varint(node.children.size());
  }
}

Result<Program> read_program(ByteReader& in) {
  BREVIS_ASSIGN(const uint8_t width, in.fixed<uint8_t>());
  BREVIS_ASSIGN(const Expr expr, Reader(in).node(1));
  Result<Program> program = build(width, expr);
  if (!program && program.error().kind() == Errc::invalid_argument)
    return make_error(Errc::corrupt, "program: " + program.error().message());
  return program;
}

}  // namespace brevis::dsl
