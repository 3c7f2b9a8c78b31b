#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Brevis beside general compressors on the same files: size, and CPU time there and back.

Every program runs alone, on one core, once per round, into a directory that should be in memory (tmpfs); times are CPU
seconds (user and system), the least of all rounds, shown as MB of the original a second. What comes back is compared
with the source. Programs that are not installed are left out and named.
"""
import argparse
import filecmp
import json
import os
import shutil
import sys
import tempfile

from pack_speed import run

PROGRAMS = {  # name: (there, back); {s} source, {t} target, {o} output
    "gzip -6": (["sh", "-c", "gzip -6 -c '{s}' > '{t}'"], ["sh", "-c", "gzip -dc '{t}' > '{o}'"]),
    "lz4 -9": (["lz4", "-q", "-f", "-9", "{s}", "{t}"], ["lz4", "-q", "-f", "-d", "{t}", "{o}"]),
    "zstd -3": (["zstd", "-q", "-f", "-T1", "-3", "{s}", "-o", "{t}"], ["zstd", "-q", "-f", "-d", "{t}", "-o", "{o}"]),
    "zstd -9": (["zstd", "-q", "-f", "-T1", "-9", "{s}", "-o", "{t}"], ["zstd", "-q", "-f", "-d", "{t}", "-o", "{o}"]),
    "zstd -19 --long": (["zstd", "-q", "-f", "-T1", "-19", "--long=27", "{s}", "-o", "{t}"],
                        ["zstd", "-q", "-f", "-d", "--long=27", "{t}", "-o", "{o}"]),
    "xz -6": (["sh", "-c", "xz -T1 -6 -c '{s}' > '{t}'"], ["sh", "-c", "xz -dc '{t}' > '{o}'"]),
    "brotli -9": (["brotli", "-f", "-q", "9", "{s}", "-o", "{t}"], ["brotli", "-f", "-d", "{t}", "-o", "{o}"]),
}


def measure(source, directory, programs, rounds, core):
    target, output = os.path.join(directory, "t"), os.path.join(directory, "o")
    row = {"file": os.path.basename(source), "bytes": os.path.getsize(source), "programs": {}}
    for name, ways in programs.items():
        there, back = ([word.format(s=source, t=target, o=output) for word in way] for way in ways)
        packing = min(run(there, {core})[0] for _ in range(rounds))
        size = os.path.getsize(target)
        unpacking = min(run(back, {core})[0] for _ in range(rounds))
        if not filecmp.cmp(source, output, shallow=False):
            sys.exit(f"{name}: {source} did not come back as it was")
        row["programs"][name] = {"size": size, "pack_s": packing, "unpack_s": unpacking}
    return row


def head(names):
    print("| file | " + " | ".join(names) + " |")
    print("|---" * (len(names) + 1) + "|")


def line(row):
    cells = []
    for one in row["programs"].values():
        speeds = [f"{row['bytes'] / 1e6 / max(one[way], 0.001):.0f}" for way in ("pack_s", "unpack_s")]
        cells.append(f"{one['size'] / row['bytes']:.3f} ({', '.join(speeds)})")
    print(f"| {row['file'].removesuffix('.safetensors')} | " + " | ".join(cells) + " |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--programs", required=True, help="directory of brevis-pack and brevis")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--directory", default="/dev/shm", help="where the outputs go (default: /dev/shm)")
    arguments = parser.parse_args()
    ours = os.path.abspath(arguments.programs)
    programs = {"brevis": ([f"{ours}/brevis-pack", "-q", "--force", "-j1", "{s}", "-o", "{t}"],
                           [f"{ours}/brevis", "extract", "-q", "--force", "-j1", "{t}", "-o", "{o}"])}
    for name, ways in PROGRAMS.items():
        if shutil.which(name.split()[0]):
            programs[name] = ways
        else:
            print(f"{name}: not installed, left out", file=sys.stderr)
    core = min(os.sched_getaffinity(0))
    rows = []
    if not arguments.json:
        head(list(programs))
    with tempfile.TemporaryDirectory(prefix="brevis-general-", dir=arguments.directory) as directory:
        for source in arguments.files:
            rows.append(measure(source, directory, programs, arguments.rounds, core))
            if not arguments.json:
                line(rows[-1])
    if arguments.json:
        json.dump(rows, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
