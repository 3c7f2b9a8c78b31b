#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packing a file, everything included, beside the zstd program on the same file.

Each round runs every command once, on one core, writing into a directory that should be in memory (tmpfs). Shown is
CPU time (user and system), the least of all rounds for each command, and the same as ratios: above 1 is faster than
zstd. With --wall also time by the clock, and with --cores N a run on N cores. Planning is the part of packing's CPU
time that choosing programs takes, training what the chosen ones take before anything is encoded, the least of all
rounds. Of several files the last line is all of them together.
"""
import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time


def run(command, cores):
    """CPU seconds, seconds by the clock and peak resident KiB of a child on the given cores."""
    start = time.monotonic()
    child = os.fork()
    if child == 0:
        try:
            os.sched_setaffinity(0, cores)
            null = os.open(os.devnull, os.O_RDWR)
            os.dup2(null, 1)
            os.execvp(command[0], command)
        finally:
            os._exit(127)
    _, status, usage = os.wait4(child, 0)
    if status != 0:
        sys.exit(f"failed: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - start, usage.ru_maxrss


def planning(command, core):
    """The shares of choosing programs and of training them in the CPU time of that run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command + ["--json"], stdout=subprocess.PIPE, check=True,
                          preexec_fn=lambda: os.sched_setaffinity(0, {core}))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    files = json.loads(done.stdout)["files"]
    return [sum(file.get(what, 0) for file in files) / seconds for what in ("planning_seconds", "training_seconds")]


def commands(arguments, source, target):
    packed = [arguments.pack, "-q", "--force", source, "-o", target + ".brv"]
    zstd = [arguments.zstd, "-q", "-f", "-T1", source, "-o", target + ".zst"]
    out = {"pack": packed + ["-j1"], "none": packed + ["-j1", "--digest", "none"]}
    if arguments.baseline:
        out["before"] = [arguments.baseline] + packed[1:] + ["-j1"]
    if arguments.cores > 1:
        out["cores"] = packed + [f"-j{arguments.cores}", "--digest", "none"]
        out["cores sha"] = packed + [f"-j{arguments.cores}"]
    out["zstd -3"] = zstd + ["-3"]
    if arguments.nine:
        out["zstd -9"] = zstd + ["-9"]
        out["dense"] = packed + ["-j1", "--profile", "dense"]
    return out


def measure(arguments, source, directory):
    target = os.path.join(directory, "out")
    first = min(os.sched_getaffinity(0))
    some = set(sorted(os.sched_getaffinity(0))[: arguments.cores])
    best, share = {}, [1.0, 1.0]
    row = {"file": os.path.basename(source), "bytes": os.path.getsize(source)}
    for _ in range(arguments.rounds):
        for name, command in commands(arguments, source, target).items():
            many = name.startswith("cores")
            cpu, wall, rss = run(command, some if many else {first})
            old = best.get(name, (1e9, 1e9, 0))
            best[name] = (min(old[0], cpu), min(old[1], wall), max(old[2], rss))
            if name == "pack":
                row["size"] = os.path.getsize(target + ".brv") / row["bytes"]
                share = min(share, planning(command, first))
    row["planning"], row["training"] = share
    row["zstd_size"] = os.path.getsize(target + ".zst") / row["bytes"]
    row["times"] = {name: {"cpu": cpu, "wall": wall, "rss_kib": rss} for name, (cpu, wall, rss) in best.items()}
    for name in os.listdir(directory):
        os.unlink(os.path.join(directory, name))
    return row


def line_of(arguments, row, times):
    line = f"{row['file'][-36:]:36} {row['size']:6.3f} " + " ".join(f"{seconds:9.3f}" for seconds in times.values())
    line += f" {times['zstd -3'] / times['pack']:10.2f} {times['zstd -3'] / times['none']:10.2f}"
    if arguments.cores > 1:
        line += f" {row['times']['none']['wall'] / times['cores']:9.2f}"
    if arguments.nine:
        line += f" {times['zstd -9'] / times['pack']:10.2f} {times['zstd -9'] / times['dense']:6.2f}"
    return line + f" {row['planning']:8.0%} {row['training']:8.0%}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--pack", default="brevis-pack", help="the program to measure")
    parser.add_argument("--baseline", help="another brevis-pack, shown beside it")
    parser.add_argument("--zstd", default="zstd")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--nine", action="store_true", help="zstd -9 as well, beside the profile dense")
    parser.add_argument("--cores", type=int, default=1, help="also a run on so many cores, by the clock")
    parser.add_argument("--wall", action="store_true", help="time by the clock instead of CPU time")
    parser.add_argument("--directory", default="/dev/shm", help="where results go")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="brevis-pack-speed-", dir=arguments.directory)
    kind = "wall" if arguments.wall else "cpu"
    rows, header = [], None
    try:
        for source in arguments.files:
            row = measure(arguments, source, directory)
            rows.append(row)
            if arguments.json:
                continue
            times = {name: value["wall" if name.startswith("cores") else kind] for name, value in row["times"].items()}
            if header is None:
                header = list(times)
                print(f"{'file':36} {'size':>6} " + " ".join(f"{name:>9}" for name in header)
                      + f" {'x zstd -3':>10} {'no digest':>10}" + (f" {'2 x none':>9}" if arguments.cores > 1 else "")
                      + (f" {'x zstd -9':>10} {'dense':>6}" if arguments.nine else "") + " planning training")
            print(line_of(arguments, row, times), flush=True)
        if len(rows) > 1 and not arguments.json:
            times = {name: sum(row["times"][name]["wall" if name.startswith("cores") else kind] for row in rows)
                     for name in header}
            every = {"file": "all", "times": {"none": {"wall": sum(r["times"]["none"]["wall"] for r in rows)}},
                     "size": sum(r["size"] * r["bytes"] for r in rows) / sum(r["bytes"] for r in rows),
                     **{what: sum(r[what] * r["times"]["pack"]["cpu"] for r in rows)
                        / sum(r["times"]["pack"]["cpu"] for r in rows) for what in ("planning", "training")}}
            print(line_of(arguments, every, times))
    finally:
        shutil.rmtree(directory)
    if arguments.json:
        print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
