#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each part of the choice of programs is worth, as Markdown tables.

usage: ablation.py BREVIS_PACK FILE.safetensors...

Packs every file without writing (`--dry-run`), in ways from bare literals to the densest search, and without each
operator in turn. Sizes do not depend on the machine; the share of planning in processor time does.
"""

import json
import pathlib
import resource
import subprocess
import sys

DTYPES = ["BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL"]
OPERATORS = ["cast", "context", "dequantise", "interleave", "levels", "map", "merge", "offset", "palette", "rank", "runs", "scan", "select", "transpose", "zeros"]
BUDGETS = [10, 50, 400]


def ways():
    literal = [arg for dtype in DTYPES for arg in ("--program", f"{dtype} = literal")]
    yield "bare literals", ["--search", "off", *literal]
    yield "known programs", ["--search", "off"]
    for search in ("uniform", "prior"):
        for budget in BUDGETS:
            yield f"{search}, {budget} expansions", ["--search", search, "--profile", "dense", "--expansions", str(budget)]
    for profile in ("fast", "balanced", "dense"):
        yield f"profile {profile}", ["--profile", profile]


def without():
    for name in OPERATORS:
        yield f"without {name}", ["--profile", "balanced", "--without", name]


def pack(program, arguments, paths):
    command = [program, "-j1", "--dry-run", "--json", "--digest", "none", "--no-verify", *arguments]
    size, planning = {}, 0.0
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for path in paths:
        done = subprocess.run([*command, str(path), "-o", "/dev/null/x.brv"], capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)} {path}: {done.stderr}")
        file = json.loads(done.stdout)["files"][0]
        size[path] = file["bytes_out"]
        planning += file["planning_seconds"]
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return size, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, planning


def table(program, rows, paths):
    names = [path.name.removesuffix(".safetensors") for path in paths]
    print("| | " + " | ".join(names) + " | all | planning |")
    print("|---" * (len(names) + 3) + "|")
    for title, arguments in rows:
        size, seconds, planning = pack(program, arguments, paths)
        cells = [f"{size[path] / path.stat().st_size:.4f}" for path in paths]
        total = sum(size.values()) / sum(path.stat().st_size for path in paths)
        print(f"| {title} | " + " | ".join(cells) + f" | {total:.4f} | {planning / max(seconds, 1e-9):.0%} |", flush=True)


def main():
    if len(sys.argv) < 3 or sys.argv[1] == "--help":
        sys.exit(__doc__)
    paths = [pathlib.Path(name) for name in sys.argv[2:]]
    print("Archive over file:\n")
    table(sys.argv[1], ways(), paths)
    print("\nAnd without one operator:\n")
    table(sys.argv[1], without(), paths)


if __name__ == "__main__":
    main()
