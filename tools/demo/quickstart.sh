#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/../.."

usage() {
  cat <<'EOF'
usage: tools/demo/quickstart.sh [BUILD]

Builds Brevis in BUILD (default: build), makes a small model, packs it, mounts
the archives, reads the model back through the mount, compares it byte by byte,
and prints sizes and speeds. Installs the Debian packages it needs. Needs
/dev/fuse; leaves nothing mounted.
EOF
}

case ${1-} in --help) usage; exit 0 ;; -*) usage >&2; exit 2 ;; esac
build=${1:-build}
[ -c /dev/fuse ] || { echo "/dev/fuse is missing: load the fuse module, or give the container --device /dev/fuse" >&2; exit 69; }

tools/dev/install_packages.sh build run
[ -e "$build/build.ninja" ] || meson setup "$build" -Dtests=false >"${TMPDIR:-/tmp}/brevis-setup.$$" ||
  { cat "${TMPDIR:-/tmp}/brevis-setup.$$"; exit 1; }
rm -f "${TMPDIR:-/tmp}/brevis-setup.$$"
echo "building (a few minutes) ..."
ninja -C "$build" --quiet fs/brevis-mount tools/brevis tools/brevis-pack

work=$(mktemp -d "${TMPDIR:-/tmp}/brevis-demo.XXXXXX")
finish() {
  ! grep -q " $work/mounted " /proc/mounts || fusermount3 -u -z "$work/mounted"
  rm -rf --one-file-system "$work"
}
trap finish EXIT

tools/demo/make_model.py "$work/model"
now() { date +%s%N; }
report() { # WHAT BYTES NANOSECONDS
  awk -v what="$1" -v bytes="$2" -v ns="$3" \
    'BEGIN { printf "%-34s %7.2f MB in %6.3f s = %7.1f MB/s\n", what, bytes / 1e6, ns / 1e9, bytes / 1e6 / (ns / 1e9) }'
}

before=$(now)
"$build/tools/brevis-pack" --progress never -q "$work/model" -o "$work/packed"
packed=$(($(now) - before))

mkdir "$work/mounted"
"$build/fs/brevis-mount" -q "$work/packed" "$work/mounted"

before=$(now)
cat "$work"/mounted/*.safetensors >/dev/null
cold=$(($(now) - before))
before=$(now)
cat "$work"/mounted/*.safetensors >/dev/null
warm=$(($(now) - before))

original=0
for file in "$work"/model/*; do
  name=${file##*/}
  cmp "$file" "$work/mounted/$name"
  [ "$(sha256sum <"$file")" = "$(sha256sum <"$work/mounted/$name")" ] || { echo "$name differs" >&2; exit 1; }
  case $name in *.safetensors)
    a=$(stat -c %s "$file") b=$(stat -c %s "$work/packed/$name.brv")
    original=$((original + a))
    awk -v n="$name" -v a="$a" -v b="$b" 'BEGIN { printf "%-34s %7.2f MB -> %6.2f MB, %4.1f %% saved, equal\n", n, a / 1e6, b / 1e6, 100 * (1 - b / a) }' ;;
  esac
done
report "packing (choice, check, SHA-256)" "$original" "$packed"
report "first read through the mount" "$original" "$cold"
report "second read (page cache)" "$original" "$warm"
fusermount3 -u "$work/mounted"
echo "the model came back through the mount byte for byte"
