#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/../.."

usage() {
  cat <<'EOF'
usage: tools/dev/new_op.sh NAME

Begins a new operator: src/dsl/ops/NAME.cc with the parts to fill in, and a
line with the next free id in src/dsl/ops.def. The build, the laws and the
fuzzers take it up from the table by themselves.
EOF
}

case ${1-} in
  --help) usage; exit 0 ;;
  '' | -* | *[!a-z0-9_]*) usage >&2; exit 2 ;;
esac
name=$1
file=src/dsl/ops/$name.cc
table=src/dsl/ops.def
[ ! -e "$file" ] || { echo "$file exists" >&2; exit 1; }
last=$(sed -n 's/^OP(\([0-9]*\),.*/\1/p' "$table" | sort -n | tail -n 1)
id=$((last + 1))

cat >"$file" <<EOF
// SPDX-License-Identifier: Apache-2.0
//
// $name(PARAMETERS; CHILDREN): what it is for, and when it pays.
//
// Params:   each with its range. Children: each with its width and length.
// Frame:    what it stores in a frame beside its children.
// Word:     out[i] = ... (the definition that docs/format-programs.md repeats).
// Refused:  what run() answers with \`corrupt\`.
#include "dsl/ops/gate.h"

namespace brevis::dsl {
namespace {

Result<std::vector<uint8_t>> child_widths(const Node& node, size_t arity) {
  BREVIS_TRY(expect_params(node, 0));
  BREVIS_TRY(expect_arity(arity, 1));
  return std::vector<uint8_t>{node.width};
}

Status child_lengths(const Node&, uint64_t n, std::span<const uint64_t>, std::span<uint64_t> lengths) {
  lengths[0] = n;
  return {};
}

}  // namespace

const OpSpec ${name}_op = {
    .id = OpId::$name,
    .name = "$name",
    .since = 1,
    .place = Place::region,
    .child_widths = child_widths,
    .child_lengths = child_lengths,
};

}  // namespace brevis::dsl
EOF
echo "OP($id, $name, 1)" >>"$table"
echo "wrote $file and id $id in $table"
echo "next: run and invert, a paragraph in docs/dsl.md and docs/format-programs.md, a class in tests/reference, tools/dev/check.sh"
