#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# The rooms of the search name no operator but the bare literal: they know operators through the table alone.
# test_search_rooms.sh SOURCE_ROOT
set -eu
rooms=(grammar targets prior prior_file search improve sample spine profile)
# The pattern must find something where operators are named, or it would find nothing anywhere.
pattern='OpId::[a-z]+|OP\(|find_op\("'
grep -qE "$pattern" "$1/src/synth/known_good.cc" || { echo "the pattern finds nothing"; exit 1; }
bad=0
for room in "${rooms[@]}"; do
  for file in "$1/src/synth/$room.h" "$1/src/synth/$room.cc"; do
    [ -e "$file" ] || { echo "$file is gone: mend the list of rooms"; bad=1; }
    if grep -nE "$pattern" "$file" | grep -v 'OpId::literal'; then
      echo "$file names an operator: ask the table instead" >&2
      bad=1
    fi
  done
done
exit $bad
