#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/../.."

usage() {
  cat <<'EOF'
usage: tools/dev/format.sh [--check] [FILE...]

Formats the tracked C++ files (or those named) with clang-format 14.
  --check  changes nothing; fails when a file is not formatted, or when a
           tracked text file has tabs, trailing blanks, no newline at its end,
           or characters that cannot be seen
Exit code 77 when clang-format 14 is not installed.
EOF
}

check=no
case ${1-} in
  --help) usage; exit 0 ;;
  --check) check=yes; shift ;;
  -*) usage >&2; exit 2 ;;
esac

clang_format=""
for name in clang-format-14 clang-format; do
  if command -v "$name" >/dev/null && "$name" --version | grep -q 'version 14\.'; then
    clang_format=$name
    break
  fi
done
[ -n "$clang_format" ] || { echo "clang-format 14 not found: apt-get install clang-format-14" >&2; exit 77; }

if [ $# -gt 0 ]; then
  files=("$@")
elif git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  mapfile -t files < <(git ls-files -- include src fs tools tests docs packaging .ci ./*.md ./*.build .clang-format)
else
  mapfile -t files < <(find include src fs tools tests docs packaging .ci ./*.md ./*.build -type f)
fi
code=() text=()
for file in "${files[@]}"; do
  [ -f "$file" ] || continue
  case $file in
    *.cc | *.h) code+=("$file"); text+=("$file") ;;
    *.def | *.py | *.sh | *.md | *.build | *.in | .ci/run | */LAYERS) text+=("$file") ;;
  esac
done

bad=0
if [ "$check" = no ]; then
  [ ${#code[@]} -eq 0 ] || "$clang_format" -i "${code[@]}"
  exit 0
fi
if [ ${#code[@]} -gt 0 ]; then
  "$clang_format" --dry-run -Werror --ferror-limit=1 "${code[@]}" || bad=1
fi
complain() { # RULE, then grep's arguments
  local rule=$1; shift
  if [ ${#text[@]} -gt 0 ] && grep -nH "$@" -- "${text[@]}"; then echo "^ $rule" >&2; bad=1; fi
}
complain "a tab" -P '\t'
complain "blanks at the end of a line" -P '[ \r]$'
complain "a character that cannot be seen" -P '\x{00a0}|\x{00ad}|[\x{200b}-\x{200f}]|[\x{2028}-\x{202e}]|[\x{2060}-\x{2069}]|\x{feff}'
for file in "${text[@]}"; do
  if [ -s "$file" ] && [ -n "$(tail -c 1 "$file")" ]; then echo "$file: no newline at its end" >&2; bad=1; fi
done
[ "$bad" = 0 ] || echo "mend the layout with tools/dev/format.sh" >&2
exit "$bad"
