# SPDX-License-Identifier: Apache-2.0
"""Damaged archives in a mount: an error where the damage is, right bytes everywhere else, never wrong ones."""
import errno
import mmap
import os
import random
import shutil
import signal
import subprocess
import sys

import harness
from harness import MIB, WORK, Mount, expect, expect_equal, expect_errno

FRAME = 512 << 10


def damaged(name, at, source="damage"):
    """A folder with an archive whose byte at `at` (a share of its size, or an offset) is flipped; offset of the byte."""
    folder, model, data = harness.packed_model(source, mib=12)
    tree = WORK / name
    tree.mkdir()
    archive = bytearray((folder / (model + ".brv")).read_bytes())
    at = int(at * len(archive)) if isinstance(at, float) else at
    archive[at] ^= 0x10
    (tree / (model + ".brv")).write_bytes(archive)
    return tree, model, data


def blocks(path, data, direct=True):
    """Reads in blocks of 4 KiB: offsets of those that failed; what is read must be right."""
    fd = os.open(path, os.O_RDONLY | (os.O_DIRECT if direct else 0))
    if not direct:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)
    area, bad = mmap.mmap(-1, 4096), []
    for offset in range(0, len(data), 4096):
        try:
            got = os.preadv(fd, [area], offset)
        except OSError as e:
            expect_equal(harness.errno_name(e.errno), "EIO", f"error at {offset}")
            bad.append(offset)
            continue
        expect(area[:got] == data[offset:offset + 4096], f"WRONG BYTES at {offset}")
    os.close(fd)
    return bad


def case_one_damaged_frame():
    # M13: EIO for the damaged frame's range only, a line with archive, tensor and offset, a counter; the rest is served
    for share in (0.3, 0.6, 0.9):
        tree, name, data = damaged(f"frame-{share}", share)
        with Mount(tree, WORK / "mnt") as mount:
            path = mount.at / name
            for direct in (True, False):
                bad = blocks(path, data, direct)
                expect(bad, "damage was not found")
                expect(bad == list(range(bad[0], bad[-1] + 1, 4096)) and len(bad) * 4096 <= FRAME + 4096,
                       f"{len(bad)} blocks from {bad[0]} to {bad[-1]} fail, more than a frame")
            expect(mount.counters()["damaged_frames"] >= 1, "the counter of damaged frames")
            lines = [line for line in mount.lines() if line["level"] == "error"]
            expect(any(name in str(line) and "layer." in str(line) and "offset" in str(line) for line in lines),
                   f"no line names archive, tensor and offset: {lines}")
            expect(len(lines) <= 4, f"{len(lines)} lines for one damaged frame")
            expect_errno(errno.EIO, "reading the whole", path.read_bytes)
            # a mapping of the bad page ends its process with SIGBUS; the daemon lives
            touch = f"import mmap, os; m = mmap.mmap(os.open({str(path)!r}, os.O_RDONLY), 0, prot=mmap.PROT_READ); m[{bad[-1] - bad[-1] % 4096 + 8}]"
            done = subprocess.run([sys.executable, "-c", touch], check=False, timeout=30)
            expect_equal(done.returncode, -signal.SIGBUS, "a mapped access")
            expect(mount.running(), "the daemon ended")
            good = 0 if bad[0] > 0 else bad[-1] + 4096
            fd = os.open(path, os.O_RDONLY)
            expect_equal(os.pread(fd, 4096, good), data[good:good + 4096], "good bytes afterwards")
            os.close(fd)


def case_flips_anywhere_are_never_served():
    # I01: whatever single bit of an archive flips, a reader gets the right bytes or an error
    folder, name, data = harness.packed_model("damage-small", mib=2)
    archive = (folder / (name + ".brv")).read_bytes()
    tree = WORK / "flips"
    tree.mkdir()
    source = random.Random(3)
    places = [0, 4, 8, 40, 63, len(archive) - 1, len(archive) - 20] + [source.randrange(len(archive)) for _ in range(40)]
    for i, at in enumerate(places):
        broken = bytearray(archive)
        broken[at] ^= 1 << source.randrange(8)
        (tree / f"{i}.safetensors.brv").write_bytes(broken)
    for i, length in enumerate((0, 1, 63, 64, len(archive) // 2, len(archive) - 1)):
        (tree / f"cut{i}.safetensors.brv").write_bytes(archive[:length])
    (tree / "foreign.brv").write_bytes(b"not an archive" * 100)
    shutil.copyfile(folder / (name + ".brv"), tree / "good.safetensors.brv")
    with Mount(tree, WORK / "mnt") as mount:
        right = refused = 0
        for entry in sorted(os.listdir(mount.at)):
            path = mount.at / entry
            if entry.endswith(".brv"):  # no archive by its own word: passed through under its own name
                expect_equal(path.read_bytes(), (tree / entry).read_bytes(), entry)
                continue
            try:
                got = path.read_bytes()
            except OSError as e:
                expect(e.errno in (errno.EIO, errno.EOPNOTSUPP), f"{entry}: {e}")
                refused += 1
                bad = []
                if e.errno == errno.EIO:
                    try:
                        bad = blocks(path, data)
                    except OSError:
                        bad = [0]  # open() already says it
                expect(bad or e.errno == errno.EOPNOTSUPP, f"{entry}: the whole fails, no block of it does")
                continue
            expect(got == data, f"{entry}: WRONG BYTES SERVED")
            right += 1
        expect(refused > 10, f"{refused} refused, {right} right")
        expect_equal((mount.at / "good.safetensors").read_bytes(), data, "the good one")
        expect_equal((mount.at / "foreign.brv").read_bytes(), b"not an archive" * 100, "a foreign .brv")
        expect(mount.running(), "the daemon ended")


def case_an_archive_that_is_cut_while_open():
    # the storage changes under an open file: errors, never wrong bytes, and the daemon lives
    tree = WORK / "cut-open"
    folder, name, data = harness.packed_model("damage", mib=12)
    shutil.copytree(folder, tree)
    with Mount(tree, WORK / "mnt", ["--memory", "2MiB"]) as mount:
        fd = os.open(mount.at / name, os.O_RDONLY | os.O_DIRECT)
        os.truncate(tree / (name + ".brv"), (tree / (name + ".brv")).stat().st_size // 2)
        area, failed = mmap.mmap(-1, MIB), 0
        for offset in range(0, len(data), MIB):
            try:
                got = os.preadv(fd, [area], offset)
                expect(area[:got] == data[offset:offset + MIB], f"WRONG BYTES at {offset}")
            except OSError as e:
                expect_equal(harness.errno_name(e.errno), "EIO", "the error")
                failed += 1
        expect(failed > 0, "half of the archive is gone and nothing failed")
        os.close(fd)
        expect(mount.running(), "the daemon ended")


if __name__ == "__main__":
    harness.run(globals())
