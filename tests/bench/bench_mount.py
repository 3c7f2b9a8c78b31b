#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures a mount beside a file system that does nothing and beside squashfuse.

usage: tests/bench/bench_mount.py BUILD [--mib N] [--rounds N] [--only NAMES]
                                  [--options "..."] [--realtime] [--json]

All on the same bytes (Gaussian-like BF16), in turns, medians of ratios within
a round. Run as root: ordinary users' mounts are those of `nobody`, for which
/dev/fuse is opened to all while this runs. Prints the bars M1 to M7, each with
what it has to reach, then speeds and processor time. NAMES: streams, user,
random, names, cache. --realtime runs everything before other programs of the
machine, which stand still meanwhile: for figures on a machine that is busy.
tools/dev/plot_mount.py draws what --json prints.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import resource
import shutil
import statistics
import stat
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
NOBODY = 65534
SMALL = ["--memory", "128MiB"]  # less than the file: no pass finds frames of the one before
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
        self.set_read_ahead(at, 4096)  # as brevis-mount does
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

    def pack(self, source, target):
        subprocess.run([self.program("tools/brevis-pack"), "-q", "--progress", "never", str(source), "-o", str(target)], check=True)

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


def counters(peers, at):
    done = subprocess.run([peers.program("tools/brevis"), "stats", "--json", str(at)], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    return found.get("counters", found)


def cpu_of(process):
    """Seconds on a processor, of all its threads."""
    total = 0
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int(task.joinpath("schedstat").read_text().split()[0])
    return total / 1e9


def cpu_of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


class Bars:
    """What was measured against what it has to be."""

    def __init__(self):
        self.rows, self.speed, self.cpu, self.sizes = [], {}, {}, {}

    def least(self, bar, what, value, limit):
        self.rows.append({"bar": bar, "what": what, "value": value, "least": limit, "passed": value >= limit})

    def most(self, bar, what, value, limit):
        self.rows.append({"bar": bar, "what": what, "value": value, "most": limit, "passed": value <= limit})

    def tell(self, bar, what, value):
        self.rows.append({"bar": bar, "what": what, "value": value})

    def print(self):
        for row in self.rows:
            line = f"{row['bar']:3} {row['what']:58} {row['value']:9.2f}"
            for word, sign in (("least", ">="), ("most", "<=")):
                if word in row:
                    line += f"   {sign} {row[word]:<7g} {'ok' if row['passed'] else 'MISSED'}"
            print(line)
        for name, value in self.speed.items():
            cpu = self.cpu.get(name)
            print(f"{name:30} {value:6.2f} GB/s" + (f"   processor seconds a GB: daemon {cpu[0]:.3f}, reader {cpu[1]:.3f}" if cpu else ""))
        for name, value in self.sizes.items():
            print(f"size {name:25} {value:6.3f}")


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


def take(peers, mode, path, process, times, name, user=False):
    """One read; notes the processor time that the daemon and the reader took."""
    before, own = cpu_of(process), cpu_of_children()
    seconds = read(peers, mode, path, user=user)[0]
    times.setdefault(name, []).append((cpu_of(process) - before, cpu_of_children() - own))
    return seconds


def note_speeds(bars, out, times, gb, prefix=""):
    for name, seconds in out.items():
        bars.speed[prefix + name] = gb / statistics.median(seconds)
        if name in times:
            bars.cpu[prefix + name] = [statistics.median(t[i] for t in times[name]) / gb for i in (0, 1)]


def measure_streams(peers, model, packed, rounds, bars):
    size = model.stat().st_size
    gb = size / 1e9
    root_at, root = peers.ours(packed, "ours", SMALL)
    null_at, null = peers.nothing(size)
    image = WORK / "model.sqfs"
    subprocess.run(["mksquashfs", str(model), str(image), "-comp", "zstd", "-Xcompression-level", "3", "-no-progress", "-quiet"],
                   check=True, stdout=subprocess.DEVNULL)
    squash_at, squash = peers.squash(image)
    files = {"ours": (root_at / model.name, root), "nothing": (null_at / "model", null), "squashfuse": (squash_at / model.name, squash)}
    times = {}
    takes = {f"{mode} {name}": (lambda m=mode, n=name, f=path, p=process: take(peers, m, f, p, times, f"{m} {n}"))
             for mode in ("read", "map", "map-back", "slices") for name, (path, process) in files.items()}
    out = in_turns(rounds, takes)
    note_speeds(bars, out, times, gb)
    bars.least("M1", "cold read / a file system that does nothing", ratio(out, "read ours", "read nothing"), 0.8)
    bars.least("M1", "cold read / squashfuse, zstd -3", ratio(out, "read ours", "read squashfuse"), 2.5)
    for mode in ("map", "map-back", "slices"):
        bars.least("M2", f"{mode} / cold read, root", ratio(out, f"{mode} ours", "read ours"), 0.7)
        bars.tell("M2", f"{mode} / the same of what does nothing", ratio(out, f"{mode} ours", f"{mode} nothing"))
    bars.sizes["ours"] = sum(f.stat().st_size for f in packed.iterdir()) / size
    bars.sizes["squashfuse"] = image.stat().st_size / size
    for path, _ in (files["ours"], files["nothing"]):
        read(peers, "read", path)
    warm = in_turns(rounds, {"ours": lambda: read(peers, "read", files["ours"][0], "warm")[0],
                             "nothing": lambda: read(peers, "read", files["nothing"][0], "warm")[0],
                             "plain": lambda: read(peers, "read", model, "warm")[0]})
    note_speeds(bars, warm, {}, gb, "warm read ")
    bars.least("M4", "warm read / a plain file", ratio(warm, "ours", "plain"), 0.95)
    bars.least("M4", "warm read / what does nothing, warm", ratio(warm, "ours", "nothing"), 0.95)
    bars.most("M6", "resident MiB, --memory 128MiB", rss(root), 128 + 64)
    for at, process in ((root_at, root), (null_at, null), (squash_at, squash)):
        peers.end(at, process)


def measure_user(peers, model, packed, rounds, bars):
    mode = os.stat("/dev/fuse").st_mode
    os.chmod("/dev/fuse", 0o666)
    try:
        mounts = {"with": peers.ours(packed, "user", SMALL, user=True),
                  "without": peers.ours(packed, "user-without", [*SMALL, "--readahead", "0"], user=True)}
        times = {}
        takes = {f"{m} {name}": (lambda m=m, n=name, at=at, p=process: take(peers, m, at / model.name, p, times, f"{m} {n}", user=True))
                 for m in ("read", "map", "map-back", "slices") for name, (at, process) in mounts.items()}
        out = in_turns(rounds, takes)
        note_speeds(bars, out, times, model.stat().st_size / 1e9, "user ")
        for m in ("read", "map", "map-back", "slices"):
            bars.least("M2", f"{m} / the same without pushing, an ordinary user", ratio(out, f"{m} with", f"{m} without"), 2)
        for at, process in mounts.values():
            peers.end(at, process)
    finally:
        os.chmod("/dev/fuse", stat.S_IMODE(mode))


def measure_random(peers, model, packed, bars):
    for memory in ("512MiB", "64MiB"):
        at, process = peers.ours(packed, "ours", ["--memory", memory])
        median, p99 = read(peers, "random", at / model.name)
        done = counters(peers, at)
        frame = done["decode_ms"] / done["frames_decoded"] * 1e3
        bars.tell("M3", f"random 4 KiB, median µs, --memory {memory}", median)
        bars.tell("M3", f"random 4 KiB, 99th percentile µs, --memory {memory}", p99)
        bars.tell("M3", f"a frame's decode time, µs, --memory {memory}", frame)
        bars.most("M3", f"99th percentile / a frame's decode time, --memory {memory}", p99 / frame, 8)
        bars.most("M3", f"streams seen in random reads, --memory {memory}", done["ahead_streams"], 0)
        if memory == "64MiB":  # and then readers of all kinds at once
            program = peers.program("tests/bench/mount_reader")
            crowd = [subprocess.Popen([program, mode, str(at / model.name)], stdout=subprocess.DEVNULL)
                     for mode in ("read", "map", "map-back", "slices", "random") for _ in range(3)]
            for reader in crowd:
                reader.wait()
            bars.most("M6", "resident MiB, --memory 64MiB, 15 readers at once", rss(process), 64 + 64)
        peers.end(at, process)


def measure_names(peers, bars):
    """10,000 archives, and one of 100,000 tensors; the least of three, since all has to be read from a cold start."""
    tree, count = WORK / "many", 10_000
    tree.mkdir()
    make_small(WORK / "tiny", 1)
    peers.pack(WORK / "tiny", WORK / "tiny.brv")
    archive = (WORK / "tiny.brv").read_bytes()
    for i in range(count):
        (tree / f"m{i}.safetensors.brv").write_bytes(archive)
    make_small(WORK / "wide", 100_000)
    (WORK / "wide-packed").mkdir()
    peers.pack(WORK / "wide", WORK / "wide-packed/wide.brv")
    took = []
    for _ in range(3):
        at, process = peers.ours(tree, "ours")
        began = time.monotonic()
        names = os.listdir(at)
        listed = time.monotonic()
        for name in names:
            os.stat(at / name)
        looked = time.monotonic()
        peers.end(at, process)
        at, process = peers.ours(WORK / "wide-packed", "ours")
        cold = time.monotonic()
        with open(at / "wide", "rb", buffering=0) as file:
            os.pread(file.fileno(), 4096, 5_000_000)
        took.append((listed - began, looked - listed, time.monotonic() - cold))
        peers.end(at, process)
    for i, what in enumerate(("listing 10,000 archives, s", "stat of each, s", "first read of 100,000 tensors, s")):
        bars.most("M5", what, min(t[i] for t in took), 1)


def make_small(path, tensors):
    """So many tensors of 64 words."""
    header = {f"t.{i}": {"dtype": "BF16", "shape": [64], "data_offsets": [128 * i, 128 * i + 128]} for i in range(tensors)}
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + random.Random(3).randbytes(128 * tensors))


def measure_cache(peers, packed, name, bars):
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
    bars.least("M7", "second pass from the cache on disk / first, 100 MB/s source", times[0] / times[1], 3)
    peers.end(slow_at, slow)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--mib", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="streams,user,random,names,cache")
    parser.add_argument("--options", default="", help="more options for brevis-mount")
    parser.add_argument("--realtime", action="store_true")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    peers = Peers(args.build.resolve(), args.options.split())
    bars = Bars()
    os.chmod(WORK, 0o755)
    try:
        model, packed = WORK / "model.safetensors", WORK / "packed"
        make_model(model, args.mib)
        packed.mkdir()
        peers.pack(model, packed / (model.name + ".brv"))
        only = args.only.split(",")
        if "streams" in only:
            measure_streams(peers, model, packed, args.rounds, bars)
        if "user" in only:
            measure_user(peers, model, packed, args.rounds, bars)
        if "random" in only:
            measure_random(peers, model, packed, bars)
        if "names" in only:
            measure_names(peers, bars)
        if "cache" in only:
            measure_cache(peers, packed, model.name, bars)
    finally:
        peers.clean()
    if args.json:
        print(json.dumps({"cpu": processor(), "cores": os.cpu_count(), "kernel": os.uname().release, "mib": args.mib, "realtime": args.realtime, "rounds": args.rounds,
                          "bars": bars.rows, "speed": bars.speed, "processor_seconds": bars.cpu, "sizes": bars.sizes}, indent=1))
    else:
        bars.print()


def processor():
    lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "a processor")


if __name__ == "__main__":
    main()
