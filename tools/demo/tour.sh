#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/../.."

usage() {
  cat <<'EOT'
usage: tools/demo/tour.sh [MODEL]

A tour of Brevis on a model directory or safetensors file (default: a small one
that it makes): packs it, looks inside, mounts it, loads it through PyTorch (or
numpy, or plain Python), shows the mount's counters live, reads it without a
mount, and shows what is said of a damaged copy. Uses build/, which
tools/demo/quickstart.sh makes, or installed programs. Needs no network: without
it the small model is a seeded one. Leaves nothing behind.
EOT
}

case ${1-} in --help) usage; exit 0 ;; -*) usage >&2; exit 2 ;; esac
for program in tools/brevis tools/brevis-pack fs/brevis-mount; do
  [ ! -x "build/$program" ] || PATH=$PWD/build/${program%/*}:$PATH
done
export PATH
command -v brevis-pack >/dev/null || { echo "no programs: run tools/demo/quickstart.sh first" >&2; exit 66; }
[ ! -e build/src/library/libbrevis.so.0 ] || export BREVIS_LIBRARY=$PWD/build/src/library/libbrevis.so.0
export PYTHONPATH=$PWD/packaging/python PYTHONDONTWRITEBYTECODE=1
python=/usr/bin/python3
[ -x "$python" ] || python=python3

work=$(mktemp -d "${TMPDIR:-/tmp}/brevis-tour.XXXXXX")
finish() {
  ! grep -q " $work/mounted " /proc/mounts || brevis-mount --unmount "$work/mounted"
  rm -rf --one-file-system "$work"
}
trap finish EXIT
say() { printf '\n\033[1m%s\033[0m\n' "$1"; }
show() { printf '$ %s\n' "$*"; "$@"; }

model=${1-}
if [ -z "$model" ]; then
  say "A small model"
  tools/demo/make_model.py "$work/model"
  model=$work/model
fi
[ -d "$model" ] || { mkdir "$work/one"; ln -s "$(realpath "$model")" "$work/one/${model##*/}"; model=$work/one; }

say "Pack it"
show brevis-pack --progress never --follow "$model" -o "$work/packed"
archive=$(find "$work/packed" -name '*.safetensors.brv' -printf '%s %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2-)
[ -n "$archive" ] || { echo "no safetensors file in $model" >&2; exit 65; }
name=${archive#"$work/packed/"}
name=${name%.brv}

say "Look inside: tensors, and the program of the largest"
brevis ls "$archive" | head -n 12
largest=$(brevis ls --json "$archive" | "$python" -c '
import json, sys
tensors = json.load(sys.stdin)["tensors"]
size = lambda t: t["data_offsets"][1] - t["data_offsets"][0]
print(max(tensors, key=size)["name"])')
show brevis inspect "$archive" "$largest" | head -n 30

if [ -c /dev/fuse ]; then
  say "Mount it, and read as if nothing had happened"
  mkdir "$work/mounted"
  show brevis-mount -q "$work/packed" "$work/mounted"
  show cmp "$model/$name" "$work/mounted/$name" && echo "equal, byte for byte"
  if "$python" -c 'import torch' 2>/dev/null; then
    say "Load it through PyTorch: the mapped file, as safetensors readers do"
  else
    say "Load it from the mapped file, as safetensors readers do"
    echo "(PyTorch is not installed, apt-get install python3-torch brings it: numpy or plain Python adds up instead)"
  fi
  "$python" tools/demo/load.py "$work/mounted/$name"

  say "The mount's counters, live, while somebody reads"
  for _ in 1 2 3 4 5 6; do
    dd if="$work/mounted/$name" of=/dev/null bs=1M iflag=direct status=none
    sleep 0.3
  done &
  reads=$!
  show timeout --foreground -s INT 2 brevis stats --watch --interval 0.6 "$work/mounted" || true  # until interrupted
  wait "$reads"
  brevis-mount --unmount "$work/mounted"
else
  echo "(/dev/fuse is missing: no mount)"
fi

if "$python" -c 'import brevis, numpy; brevis.version()' 2>/dev/null; then
  say "The same without a mount, in Python"
  "$python" - "$archive" <<'EOT'
import sys
import brevis
with brevis.open(sys.argv[1]) as archive:
    name = max(archive, key=lambda n: archive.tensor(n).bytes)
    print(archive.tensor(name), "->", archive[name].shape, archive[name].dtype)
EOT
fi

say "Damage is an error, not a wrong weight"
cp "$archive" "$work/damaged.brv"
printf '\x55' | dd of="$work/damaged.brv" bs=1 seek=$(($(stat -c %s "$archive") / 2)) conv=notrunc status=none
show brevis fsck --progress never "$work/damaged.brv" || echo "exit $?"
