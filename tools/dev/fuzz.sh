#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/../.."

usage() {
  cat <<'EOF'
usage: tools/dev/fuzz.sh TARGET [MINUTES]

Builds the fuzz targets with clang's libFuzzer and sanitizers in build-fuzz and
runs TARGET (tests/fuzz/fuzz_TARGET.cc) for MINUTES (default 5) from its corpus
in tests/fuzz/corpora/TARGET. Inputs that crash are left in build-fuzz/TARGET;
new inputs are minimised into the corpus while all corpora stay within 1 MiB.
Needs clang (apt-get install clang).
EOF
}

case ${1-} in
  --help) usage; exit 0 ;;
  '' | -*) usage >&2; exit 2 ;;
esac
target=$1
minutes=${2:-5}
corpus=tests/fuzz/corpora/$target
[ -e "tests/fuzz/fuzz_$target.cc" ] || { echo "no tests/fuzz/fuzz_$target.cc" >&2; exit 2; }

command -v clang++ >/dev/null || { echo "clang++ is missing: apt-get install clang" >&2; exit 69; }
if [ ! -e build-fuzz/build.ninja ]; then
  CXX=clang++ meson setup build-fuzz -Dfuzz=true --buildtype=debugoptimized -Db_sanitize=address,undefined \
    -Db_lundef=false
fi
ninja -C build-fuzz "tests/fuzz/fuzz-$target"
binary=$PWD/build-fuzz/tests/fuzz/fuzz-$target
found=build-fuzz/$target
mkdir -p "$corpus" "$found/new"

"$binary" -max_total_time=$((minutes * 60)) -max_len=65536 -rss_limit_mb=1024 -timeout=10 \
  -artifact_prefix="$found/" "$found/new" "$corpus"

"$binary" -merge=1 "$corpus" "$found/new"
size=$(du -sb tests/fuzz/corpora | cut -f 1)
if [ "$size" -gt 1048576 ]; then
  echo "tests/fuzz/corpora has $size bytes, above 1 MiB: take the least useful inputs out before committing" >&2
  exit 1
fi
