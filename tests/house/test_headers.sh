#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Every public header compiles alone, first in a file.  test_headers.sh INCLUDE GENERATED COMPILER...
set -eu
include=$1 generated=$2
shift 2
bad=0
for header in "$include"/brevis/*.h "$generated"/brevis/*.h; do
  if ! printf '#include "%s"\n' "$header" | "$@" -std=c++20 -fsyntax-only -Wall -Wextra -Werror \
    -I "$include" -I "$generated" -x c++ -; then
    echo "$header does not compile alone" >&2
    bad=1
  fi
done
exit "$bad"
