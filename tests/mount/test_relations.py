# SPDX-License-Identifier: Apache-2.0
"""A series of snapshots packed as a chain and mounted: every byte equal, random reads across the chain, and a base that
is gone."""
import errno
import functools
import os
import random
import shutil
import subprocess

import harness
from harness import WORK, Mount, expect, expect_errno

STEPS = 6


def snapshot(words, seed):
    """The words a step further: most low bits move."""
    source, out = random.Random(seed), bytearray(words)
    noise = source.randbytes(len(out) // 2)
    for i in range(0, len(out), 2):
        out[i] ^= noise[i // 2] & 3
    return bytes(out)


def series():
    """Originals by step, packed below WORK/packed."""
    words, moments = harness.weights("BF16", 700000, 5), harness.weights("F32", 200000, 6)
    originals = []
    for step in range(STEPS):
        words = snapshot(words, step) if step else words
        data = harness.safetensors([("w", "BF16", [700, 1000], words), ("m", "F32", [200000], moments)],
                                   {"step": str(step)})
        folder = WORK / "run" / f"step-{step}"
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(data)
        originals.append(data)
    subprocess.run([os.environ["BREVIS_PACK"], "-q", "--progress", "never", "--chain", "-o", WORK / "packed",
                    *[WORK / "run" / f"step-{step}" for step in range(STEPS)]], check=True)
    return originals


def path(mount, step):
    return mount.at / f"step-{step}" / "model.safetensors"


@functools.cache
def originals():
    return series()


def case_every_byte():
    originals()
    for memory in ("8MiB", "512MiB"):
        with Mount(WORK / "packed", WORK / "mnt", ["--memory", memory]) as mount:
            for step in reversed(range(STEPS)):
                expect(path(mount, step).read_bytes() == originals()[step], f"step {step} differs")


def case_random_reads():
    source = random.Random(1)
    originals()
    with Mount(WORK / "packed", WORK / "mnt") as mount:
        files = [os.open(path(mount, step), os.O_RDONLY) for step in range(STEPS)]
        for _ in range(600):
            step = source.randrange(STEPS)
            data = originals()[step]
            at, n = source.randrange(len(data)), source.choice((1, 4096, 70000))
            expect(os.pread(files[step], n, at) == data[at:at + n], f"step {step}, bytes {at} + {n}")
        for fd in files:
            os.close(fd)


def case_base_gone():
    # Z09: refused before a byte is served; what stands alone is served; bases may be elsewhere
    originals()
    tree = WORK / "partly"
    shutil.copytree(WORK / "packed", tree)
    (tree / "step-0" / "model.safetensors.brv").unlink()
    with Mount(tree, WORK / "mnt") as mount:
        expect_errno(errno.EIO, "opening what has lost its base", lambda: open(path(mount, 4), "rb"))
        expect(path(mount, 5).read_bytes() == originals()[5], "the next key frame")
        expect(any("step-0" in str(line) for line in mount.lines() if line["level"] == "error"),
               "a line in the log that names the base")
    with Mount(tree, WORK / "mnt", ["--base-path", str(WORK / "packed")]) as mount:
        expect(path(mount, 4).read_bytes() == originals()[4], "with a base from elsewhere")


if __name__ == "__main__":
    harness.run(globals())
