#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The kernels build for 64-bit ARM without a warning, and where an emulator is installed they give what scalar code gives.
#   test_aarch64.sh SOURCE_ROOT COMPILER [EMULATOR]
set -eu
root=$1 compiler=$2 emulator=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Of this system's own headers only those without code are wanted (tl/expected.hpp), after all of the other system's.
cd "$root"
for source in src/bits/*.cc src/base/log.cc tests/house/kernels_elsewhere.cc; do
  "$compiler" -std=c++20 -O1 -Wall -Wextra -Werror -D_GNU_SOURCE -I include -I src -idirafter /usr/include \
    -c "$source" -o "$work/$(basename "$source").o"
done
"$compiler" -static "$work"/*.o -o "$work/kernels"
[ -n "$emulator" ] || exit 0
levels=$("$emulator" "$work/kernels")
[ "$levels" = "scalar
neon" ] || { echo "kernels are '$levels', not scalar and neon" >&2; exit 1; }
