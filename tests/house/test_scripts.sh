#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Scripts for developers and the demo stay short and explain themselves within 80 columns.  test_scripts.sh ROOT
set -eu
cd "$1"
bad=0
complain() { echo "$1" >&2; bad=1; }
for script in tools/dev/*.sh tools/dev/*.py tools/dev/hooks/* tools/demo/*; do
  [ -f "$script" ] || continue
  [ -x "$script" ] || complain "$script is not executable"
  lines=$(wc -l <"$script")
  case $script in tools/dev/*) [ "$lines" -le 80 ] || complain "$script has $lines lines, above 80" ;; esac
  help=$("./$script" --help </dev/null) || complain "$script --help fails"
  [ -n "$help" ] || complain "$script --help says nothing"
  wide=$(awk 'length($0) > 80' <<<"$help")
  [ -z "$wide" ] || complain "$script --help is wider than 80 columns: $wide"
done
exit "$bad"
