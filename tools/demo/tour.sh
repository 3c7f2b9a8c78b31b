#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/../.."

usage() {
  cat <<'EOT'
usage: tools/demo/tour.sh [MODEL]

A tour of Brevis on a model directory or safetensors file (default: a small one
that it makes): packs it, looks inside, mounts it, loads it through PyTorch if
that is installed, shows the mount's counters, reads it without a mount, and
shows what is said of a damaged copy. Uses build/ (tools/demo/quickstart.sh) or
installed programs. No network with a MODEL; leaves nothing behind.
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
    "$python" - "$work/mounted/$name" <<'EOT'
import json, mmap, sys, time, warnings
import torch
warnings.filterwarnings("ignore")
began = time.time()
with open(sys.argv[1], "rb") as file:
    data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
start = 8 + int.from_bytes(data[:8], "little")
types = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
total = 0
for name, entry in json.loads(bytes(data[8:start])).items():
    if name != "__metadata__" and entry["dtype"] in types and entry["data_offsets"][0] < entry["data_offsets"][1]:
        a, b = entry["data_offsets"]
        total += torch.frombuffer(data[start + a:start + b], dtype=types[entry["dtype"]]).float().abs().sum().item()
print(f"sum of all absolute weights {total:.6g}, in {time.time() - began:.3f} s")
EOT
  else
    echo "(PyTorch is not installed: apt-get install python3-torch)"
  fi
  say "The mount's counters"
  if brevis --help | grep -q '^ *stats'; then
    show brevis stats "$work/mounted"
  else
    echo "(this version logs them: kill -USR1 \$(pidof brevis-mount))"
  fi
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
