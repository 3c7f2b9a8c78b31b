# SPDX-License-Identifier: Apache-2.0
"""A series of snapshots packed each alone and as a chain, both mounted: sizes, every byte compared, and what random
reads of 4 KiB cost across the chain.  chain.py FILE...

FILE... are the snapshots in order, such as run/step-*/model.safetensors. BREVIS_PROGRAM_DIR names the programs,
BREVIS_MOUNT brevis-mount where that is elsewhere. Prints
a row of a Markdown table: snapshots, bytes, bytes of all alone and of the chain, their ratio, and times as ratios
within one run: CPU seconds of `brevis cat` over an archive one step and (up to) four steps from the key frame and over the
same file packed alone, and the median time of a random read through both mounts.
"""
import os
import pathlib
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time

BIN = pathlib.Path(os.environ["BREVIS_PROGRAM_DIR"])
MOUNT = os.environ.get("BREVIS_MOUNT", BIN / "brevis-mount")
READS, ROUNDS = 1500, 5


def run(*command):
    subprocess.run([str(c) for c in command], check=True, stdout=subprocess.DEVNULL)


def cpu_seconds(archive):
    """Of giving back all of it, the least of some rounds."""
    best = float("inf")
    for _ in range(ROUNDS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run(BIN / "brevis", "cat", archive)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def mounted(source, at, check, *options):
    at.mkdir()
    run(MOUNT, *options, source, at)
    try:
        return check(at)
    finally:
        run(MOUNT, "--unmount", at)


def every_byte(originals):
    def check(at):
        for step, original in enumerate(originals):
            if (at / f"{step}").read_bytes() != original.read_bytes():
                sys.exit(f"snapshot {step} differs on the mount")
    return check


def random_reads(originals, steps):
    """Median seconds of a cold read of 4 KiB, compared byte by byte."""
    source, data = random.Random(1), {step: originals[step].read_bytes() for step in steps}

    def check(at):
        files = {step: os.open(at / f"{step}", os.O_RDONLY | os.O_DIRECT) for step in steps}
        times = []
        for _ in range(READS):
            step = source.choice(steps)
            offset = source.randrange(len(data[step]) // 4096) * 4096
            began = time.perf_counter()
            got = os.pread(files[step], 4096, offset)
            times.append(time.perf_counter() - began)
            if got != data[step][offset:offset + 4096]:
                sys.exit(f"snapshot {step}, bytes from {offset} on differ")
        for file in files.values():
            os.close(file)
        return statistics.median(times)
    return check


def main(originals):
    with tempfile.TemporaryDirectory(prefix="brevis-chain-") as folder:
        work = pathlib.Path(folder)
        alone, chain, points = work / "alone", work / "chain", work / "at"
        points.mkdir()
        folders = []
        for step, original in enumerate(originals):
            folders.append(work / "series" / f"{step}")
            folders[-1].parent.mkdir(exist_ok=True)
            folders[-1].symlink_to(original.resolve())
        for target, options in ((alone, ()), (chain, ("--chain",))):
            target.mkdir()
            run(BIN / "brevis-pack", "-q", "--progress", "never", *options, "-o", target, *folders)
        sizes = [sum(p.stat().st_size for p in target.rglob("*.brv")) for target in (alone, chain)]
        mounted(chain, points / "a", every_byte(originals))
        last = min(len(originals) - 1, 4)
        tiny = work / "tiny.brv"
        (work / "tiny").write_bytes(b"1")
        run(BIN / "brevis-pack", "-q", work / "tiny", "-o", tiny)
        start = cpu_seconds(tiny)
        decode = {step: [cpu_seconds(target / f"{step}.brv") - start for target in (alone, chain)] for step in (1, last)}
        steps = [step for step in range(len(originals)) if step % 5]
        # So little memory that next to no frame is found there.
        reads = [mounted(target, points / name, random_reads(originals, steps), "--memory", "2MiB", "--readahead", "0")
                 for target, name in ((alone, "b"), (chain, "c"))]
        whole = sum(p.stat().st_size for p in originals)
        print(f"| {originals[0].name} | {len(originals)} | {whole:,} | {sizes[0]:,} | {sizes[1]:,} | {sizes[1] / sizes[0]:.3f} "
              f"| {decode[1][1] / decode[1][0]:.2f} | {decode[last][1] / decode[last][0]:.2f} | {reads[1] / reads[0]:.2f} |")


if __name__ == "__main__":
    main([pathlib.Path(name) for name in sys.argv[1:]])
