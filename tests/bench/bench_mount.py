#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a mount beside a file system that does nothing and beside squashfuse.

usage: tests/bench/bench_mount.py BUILD [--mib N] [--rounds N] [--only NAMES]
                                  [--options "..."] [--svg FILE] [--json]

All on the same bytes (Gaussian-like BF16), in turns, medians of ratios within
a round. Run as root: ordinary users' mounts are those of `nobody`, for which
/dev/fuse is opened to all while this runs. Prints the bars M1 M2 M3 M4 M6 M7.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import shutil
import statistics
import stat
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
NOBODY = 65534
WORK = pathlib.Path(tempfile.mkdtemp(prefix="brevis-bench-mount."))
EXPONENTS = bytes(min(max(int(random.Random(i).gauss(0x3c, 1.1) + 0.5), 0x37), 0x3f) | (i & 1) << 7 for i in range(256))


def make_model(path, mib):
    """A safetensors file of BF16 tensors of 64 MiB."""
    sizes = [min(64, mib - at) * MIB for at in range(0, mib, 64)]
    header, at = {}, 0
    for i, size in enumerate(sizes):
        header[f"layer.{i}"] = {"dtype": "BF16", "shape": [size // 2048, 1024], "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(len(text).to_bytes(8, "little") + text)
        source = random.Random(1)
        for size in sizes:
            data = bytearray(source.randbytes(size))
            data[1::2] = source.randbytes(size // 2).translate(EXPONENTS)
            out.write(data)


class Peers:
    """What is measured: mounts that end with the program."""

    def __init__(self, build, extra):
        self.build, self.extra, self.at = build, extra, []

    def program(self, where):
        return str(self.build / where)

    def ours(self, source, name, options=(), user=False):
        at = WORK / name
        at.mkdir(exist_ok=True)
        how = {}
        if user:
            os.chown(at, NOBODY, NOBODY)
            how = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        command = [self.program("fs/brevis-mount"), "-f", "-q", *self.extra, *options, str(source), str(at)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, **how)
        self.wait(at)
        self.at.append(at)
        return at, process

    def nothing(self, size):
        at = WORK / "nothing"
        at.mkdir(exist_ok=True)
        process = subprocess.Popen([self.program("tests/support/peer_fs"), "nothing", str(size), str(at)])
        self.wait(at)
        self.set_read_ahead(at, 2048)
        self.at.append(at)
        return at, process

    def slow(self, folder, rate):
        at = WORK / "slow"
        at.mkdir(exist_ok=True)
        process = subprocess.Popen([self.program("tests/support/peer_fs"), "slow", str(folder), str(rate), str(at)])
        self.wait(at)
        self.at.append(at)
        return at, process

    def squash(self, image):
        at = WORK / "squash"
        at.mkdir(exist_ok=True)
        process = subprocess.Popen(["squashfuse", "-f", str(image), str(at)], stderr=subprocess.DEVNULL)
        self.wait(at)
        self.at.append(at)
        return at, process

    @staticmethod
    def device(at):
        return [l.split()[2] for l in pathlib.Path("/proc/self/mountinfo").read_text().splitlines() if l.split()[4] == str(at)]

    def wait(self, at):
        for _ in range(500):
            if self.device(at):
                return time.sleep(0.3)  # until the mount is set up
            time.sleep(0.02)
        sys.exit(f"{at} was not mounted")

    def set_read_ahead(self, at, kib):
        pathlib.Path("/sys/class/bdi", self.device(at)[-1], "read_ahead_kb").write_text(str(kib))

    def end(self, at, process):
        subprocess.run(["umount", "-l", str(at)], check=False)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        if process.poll() is None:
            process.kill()
        self.at.remove(at)

    def clean(self):
        for at in reversed(self.at):
            subprocess.run(["umount", "-l", str(at)], check=False)
        shutil.rmtree(WORK, ignore_errors=True)


def read(peers, mode, path, *more, user=False):
    how = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if user else {}
    done = subprocess.run([peers.program("tests/bench/mount_reader"), mode, str(path), *more], capture_output=True, text=True, check=True, **how)
    return [float(x) for x in done.stdout.split()]


def rss(process):
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024


def in_turns(rounds, takes):
    """takes: name -> function giving seconds; lists of them, taken in turns."""
    out = {name: [] for name in takes}
    for _ in range(rounds):
        for name, take in takes.items():
            out[name].append(take())
    return out


def ratio(out, of, to):
    """Speed of `of` as a multiple of that of `to`: median over rounds."""
    return statistics.median(b / a for a, b in zip(out[of], out[to]))


def measure_streams(peers, model, packed, rounds, rows):
    size = model.stat().st_size
    gb = size / 1e9
    root_at, root = peers.ours(packed, "ours")
    null_at, null = peers.nothing(size)
    image = WORK / "model.sqfs"
    subprocess.run(["mksquashfs", str(model), str(image), "-comp", "zstd", "-Xcompression-level", "3", "-no-progress", "-quiet"],
                   check=True, stdout=subprocess.DEVNULL)
    squash_at, squash = peers.squash(image)
    files = {"ours": root_at / model.name, "nothing": null_at / "model", "squashfuse": squash_at / model.name}
    takes = {f"{mode} {name}": (lambda m=mode, f=path: read(peers, m, f)[0])
             for mode in ("read", "map", "map-back", "slices") for name, path in files.items()}
    out = in_turns(rounds, takes)
    for name, times in out.items():
        rows["speed"][name] = gb / statistics.median(times)
    rows["M1 read / nothing"] = ratio(out, "read ours", "read nothing")
    rows["M1 read / squashfuse"] = ratio(out, "read ours", "read squashfuse")
    for mode in ("map", "map-back", "slices"):
        rows[f"M2 {mode} / read"] = ratio({**out}, f"{mode} ours", "read ours")
        rows[f"M2 {mode} / nothing"] = ratio(out, f"{mode} ours", f"{mode} nothing")
    rows["size ours"] = sum(f.stat().st_size for f in packed.iterdir()) / size
    rows["size squashfuse"] = image.stat().st_size / size
    read(peers, "read", files["ours"])
    warm = in_turns(rounds, {"ours": lambda: read(peers, "read", files["ours"], "warm")[0],
                             "plain": lambda: read(peers, "read", model, "warm")[0]})
    rows["M4 warm / plain"] = ratio(warm, "ours", "plain")
    rows["M6 resident MiB, --memory 512MiB"] = rss(root)
    for at, process in ((root_at, root), (null_at, null), (squash_at, squash)):
        peers.end(at, process)


def measure_user(peers, model, packed, rounds, rows):
    mode = os.stat("/dev/fuse").st_mode
    os.chmod("/dev/fuse", 0o666)
    try:
        with_push = peers.ours(packed, "user", user=True)
        without = peers.ours(packed, "user-without", ["--readahead", "0"], user=True)
        takes = {f"{m} {name}": (lambda m=m, at=at: read(peers, m, at / model.name, user=True)[0])
                 for m in ("read", "map", "map-back", "slices") for name, (at, _) in (("with", with_push), ("without", without))}
        out = in_turns(rounds, takes)
        gb = model.stat().st_size / 1e9
        for name, times in out.items():
            rows["speed"]["user " + name] = gb / statistics.median(times)
        for m in ("read", "map", "map-back", "slices"):
            rows[f"M2 user {m} / without"] = ratio(out, f"{m} with", f"{m} without")
        for at, process in (with_push, without):
            peers.end(at, process)
    finally:
        os.chmod("/dev/fuse", stat.S_IMODE(mode))


def measure_random(peers, model, packed, rows):
    at, process = peers.ours(packed, "ours")
    median, p99 = read(peers, "random", at / model.name)
    rows["M3 median µs"], rows["M3 p99 µs"] = median, p99
    bench = subprocess.run([peers.program("tools/brevis"), "bench", "--json", "--rounds", "3", str(packed / (model.name + ".brv"))],
                           capture_output=True, text=True, check=True)
    found = json.loads(bench.stdout)
    rows["bench"] = found.get("files", [found])[0] if isinstance(found, dict) else None
    peers.end(at, process)
    small, process = peers.ours(packed, "ours", ["--memory", "64MiB"])
    read(peers, "random", small / model.name)
    read(peers, "read", small / model.name)
    rows["M6 resident MiB, --memory 64MiB"] = rss(process)
    peers.end(small, process)


def measure_cache(peers, packed, name, rows):
    slow_at, slow = peers.slow(packed, 100e6)
    times = []
    cache = WORK / "cache"
    for _ in range(2):
        at, process = peers.ours(slow_at, "ours", ["--cache-dir", str(cache), "--cache-size", "20GiB"])
        times.append(read(peers, "read", at / name)[0])
        time.sleep(2)  # for the last blocks to be written
        peers.end(at, process)
        for block in cache.iterdir():
            fd = os.open(block, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
    rows["M7 second pass / first"] = times[0] / times[1]
    peers.end(slow_at, slow)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="streams,user,random,cache")
    parser.add_argument("--options", default="", help="more options for brevis-mount")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    peers = Peers(args.build.resolve(), args.options.split())
    rows = {"speed": {}}
    os.chmod(WORK, 0o755)
    try:
        model, packed = WORK / "model.safetensors", WORK / "packed"
        make_model(model, args.mib)
        packed.mkdir()
        subprocess.run([peers.program("tools/brevis-pack"), "-q", "--progress", "never", str(model), "-o",
                        str(packed / (model.name + ".brv"))], check=True)
        only = args.only.split(",")
        if "streams" in only:
            measure_streams(peers, model, packed, args.rounds, rows)
        if "user" in only:
            measure_user(peers, model, packed, args.rounds, rows)
        if "random" in only:
            measure_random(peers, model, packed, rows)
        if "cache" in only:
            measure_cache(peers, packed, model.name, rows)
    finally:
        peers.clean()
    rows.pop("bench", None) if not args.json else None
    if args.json:
        print(json.dumps(rows))
        return
    for name, value in rows.items():
        if name != "speed":
            print(f"{name:40} {value:8.2f}")
    for name, value in rows["speed"].items():
        print(f"{name:40} {value:8.2f} GB/s")


if __name__ == "__main__":
    main()
