# SPDX-License-Identifier: Apache-2.0
"""The cache on disk behind a mount: restarts, kills, full and foreign disks, slow sources; always compared byte by byte.

With BREVIS_LONG set more rounds of everything.
"""
import contextlib
import mmap
import os
import pathlib
import random
import shutil
import signal
import subprocess
import threading
import time

import harness
from harness import MIB, WORK, Mount, expect, expect_equal, until

PEER = os.environ.get("BREVIS_PEER", "")
LONG = bool(os.environ.get("BREVIS_LONG"))


def cached(name, *more):
    return ["--cache-dir", WORK / name, "--cache", "always", *more]


def settled(mount):
    """Waits until nothing is being written any more; the counters."""
    last, looks = {}, 0

    def quiet():
        nonlocal last, looks
        now = mount.counters()
        same = all(now[k] == last.get(k) for k in ("disk_written_bytes", "disk_dropped", "disk_faults", "decoded_bytes"))
        last, looks = now, looks + 1 if same else 0
        time.sleep(0.1)
        return looks >= 3  # a disk may pause

    until(quiet, "the cache to come to rest", 30)
    return last


@contextlib.contextmanager
def slow(folder, rate, at):
    """The folder once more, at `rate` bytes a second."""
    at.mkdir(exist_ok=True)
    process = subprocess.Popen([PEER, "slow", str(folder), str(rate), str(at)])
    until(lambda: os.path.ismount(at), "the slow file system")
    try:
        yield at
    finally:
        subprocess.run(["umount", "-l", at] if os.getuid() == 0 else ["fusermount3", "-u", "-z", at], check=True)
        process.wait(20)


def expect_start_fails(code, text, source, *options):
    (WORK / "mnt-no").mkdir(exist_ok=True)
    done = subprocess.run([harness.MOUNT, *map(str, options), str(source), str(WORK / "mnt-no")], capture_output=True, text=True,
                          timeout=60, check=False, env={**os.environ, **harness.sanitizer_environment()})
    expect_equal(done.returncode, code, f"exit code ({done.stderr.strip()})")
    expect(text in done.stderr, f"{text!r} is not in {done.stderr!r}")


def case_a_second_pass_after_a_restart():
    # M25, L08: in front or in the background: after a restart everything comes from the cache, nothing is decoded
    folder, name, data = harness.packed_model("cache", mib=16)
    for front in (False, True):
        for first in (True, False):
            with Mount(folder, WORK / "mnt", cached(f"c-{front}"), foreground=front) as mount:
                expect_equal((mount.at / name).read_bytes(), data, "the model")
                if first:  # nothing may be dropped, so however slow the disk is, all of it comes
                    until(lambda: mount.counters()["disk_written_bytes"] == mount.counters()["decoded_bytes"], "all of it is written", 60)
                counters = settled(mount)
                if first:
                    expect_equal(counters["disk_written_bytes"], counters["decoded_bytes"], "written")
                else:
                    expect_equal(counters["frames_decoded"], 0, "frames decoded")
                    expect(counters["disk_hits"] >= 32, f"{counters['disk_hits']} hits")
                expect_equal(counters["disk_faults"], 0, "faults")
                expect_equal(counters["disk_rebuilds"], 0, "rebuilds")


def case_only_slow_sources_are_worth_it():
    # auto: a local archive is decoded again; one on a slow source is kept, and the second pass asks the source for nothing
    folder, name, data = harness.packed_model("cache", mib=16)
    if not PEER:
        return
    with Mount(folder, WORK / "mnt", ["--cache-dir", WORK / "c-auto-local"]) as mount:
        for _ in range(3):
            expect_equal((mount.at / name).read_bytes(), data, "the model")
            harness.drop_caches(mount.at / name)
        local = settled(mount)
        slow_decoding = harness.sanitized() or os.environ.get("BREVIS_CPU") == "scalar"
        expect(slow_decoding or local["disk_unworthy"] > 0, f"a local archive was kept: {local}")
    with slow(folder, 20 * MIB, WORK / "slow-source") as source:
        for second in (False, True):
            with Mount(source, WORK / "mnt", ["--cache-dir", WORK / "c-auto-slow"]) as mount:
                expect_equal((mount.at / name).read_bytes(), data, "the model through a slow source")
                counters = settled(mount)
                if second:
                    expect(counters["disk_hits"] >= 2 * counters["frames_decoded"], f"{counters} in the second pass")
                else:
                    expect(counters["disk_written_bytes"] >= counters["decoded_bytes"] // 2, f"{counters} in the first pass")


def case_killed_at_random_points():
    # kill -9 under load with the cache on: the next daemon has right frames or none
    folder, name, data = harness.packed_model("cache", mib=16)
    source = random.Random(11)
    for round_number in range(40 if LONG else 6):
        mount = Mount(folder, WORK / "mnt", cached("c-kill", "--cache-size", "12MiB", "--memory", "8MiB"))
        stop = threading.Event()

        def read(seed):
            own = random.Random(seed)
            with contextlib.suppress(OSError):
                fd = os.open(mount.at / name, os.O_RDONLY)
                while not stop.is_set():
                    offset = own.randrange(len(data))
                    got = os.pread(fd, 200_000, offset)
                    if got != data[offset:offset + len(got)]:  # cut off, a read may be short
                        wrong.append(offset)

        wrong = []
        threads = [threading.Thread(target=read, args=(source.random(),)) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(source.uniform(0.05, 0.5))
        os.kill(mount.pid, signal.SIGKILL)
        stop.set()
        for thread in threads:
            thread.join()
        expect(not wrong, f"WRONG BYTES at {wrong[:3]}")
        until(lambda: not mount.running(), "the end")
        with Mount(folder, WORK / "mnt", cached("c-kill", "--cache-size", "12MiB")) as after:
            expect_equal((after.at / name).read_bytes(), data, f"after kill {round_number}")
            counters = after.counters()
            expect_equal(counters["disk_faults"] + counters["disk_rebuilds"], 0, "faults and rebuilds")


def case_disks_in_trouble():
    # L03: full, read-only, damaged and foreign cache directories: reads go on, right, and somebody is told
    folder, name, data = harness.packed_model("cache", mib=16)

    def read(what, options, check):
        with Mount(folder, WORK / "mnt", options) as mount:
            for _ in range(2):
                expect_equal((mount.at / name).read_bytes(), data, what)
                harness.drop_caches(mount.at / name)
            check(mount, settled(mount))

    place = WORK / "c-trouble"
    if os.getuid() == 0:
        for size in ("1m", "3m", "9m"):
            place.mkdir(mode=0o700, exist_ok=True)
            subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "tmpfs", place], check=True)
            try:
                # something else takes the room while the daemon runs
                with Mount(folder, WORK / "mnt", ["--cache-dir", place, "--cache", "always"]) as mount:
                    with contextlib.suppress(OSError), open(place / "other", "wb") as other:
                        while True:
                            other.write(bytes(65536))
                    for _ in range(2):
                        expect_equal((mount.at / name).read_bytes(), data, f"a full disk of {size}")
                        harness.drop_caches(mount.at / name)
                    if size == "9m":
                        expect(settled(mount)["disk_faults"] > 0, "no fault was counted on a full disk")
                        expect(mount.lines("cache on disk"), "nobody was told")
                subprocess.run(["mount", "-o", "remount,ro", place], check=True)
                read("a read-only disk", ["--cache-dir", place, "--cache", "always"],
                     lambda mount, _: expect(mount.lines("without a cache"), "nobody was told"))
            finally:
                subprocess.run(["umount", "-l", place], check=True)
    read("a new place", cached("c-trouble"), lambda mount, c: expect_equal(c["disk_faults"], 0, "faults"))
    (place / "notes.txt").write_text("somebody else's")
    for damage in ("blocks", "index", "cache"):
        read("before the damage", cached("c-trouble"), lambda mount, c: expect(c["disk_entries"] > 0, f"nothing is kept: {c}"))
        for file in place.glob(f"brevis.{damage}*"):
            content = bytearray(file.read_bytes())
            # Of an index every few bytes: most of its pages may hold nothing.
            for at in range(0, len(content), 7 if damage == "index" else max(1, len(content) // 997)):
                content[at] ^= 0x41
            file.write_bytes(content)
        read(f"damaged {damage}", cached("c-trouble"),
             lambda mount, c: expect(c["disk_faults"] + c["disk_rebuilds"] > 0, f"not noticed: {c}"))
    for file in place.glob("brevis.*"):
        file.write_bytes(b"not ours " * 1000)
    read("foreign files under our names", cached("c-trouble"), lambda mount, c: expect(c["disk_rebuilds"] > 0, "not rebuilt"))
    expect_equal((place / "notes.txt").read_text(), "somebody else's", "a file of somebody else")


def case_changed_while_in_use():
    # D11: the directory is emptied and damaged under a living daemon, blocks and index, which its writer has mapped
    # LMDB believes the pages of its file, and the process that writes it may die of damage there; that is what it is
    # for. A sanitizer calls that a fault of ours.
    if harness.sanitized():
        return
    folder, name, data = harness.packed_model("cache", mib=16)
    place = WORK / "c-living"
    with Mount(folder, WORK / "mnt", cached("c-living", "--memory", "4MiB")) as mount:
        for damage in ("nothing", "bytes", "cut", "removed"):
            for file in list(place.glob("brevis.*")):
                if damage == "removed":
                    file.unlink()
                elif damage == "cut" and "lock" not in file.name:
                    os.truncate(file, file.stat().st_size // 3)
                elif damage == "bytes" and ("blocks" in file.name or "index" in file.name):
                    with open(file, "r+b") as out:
                        for at in range(0, file.stat().st_size, 100_000 if "blocks" in file.name else 97):
                            out.seek(at)
                            out.write(b"x")
            for _ in range(2):
                expect_equal((mount.at / name).read_bytes(), data, f"with {damage}")
                harness.drop_caches(mount.at / name)
            settled(mount)
        expect(mount.counters()["disk_faults"] > 0, "no fault was counted")


def case_places_that_are_refused():
    # L04, L06: a network file system, one that is in use, one inside the tree, one that others may write to
    folder, name, data = harness.packed_model("cache", mib=16)
    with Mount(folder, WORK / "mnt", cached("c-busy")):
        expect_start_fails(75, "used by another process", folder, "--cache-dir", WORK / "c-busy")
    expect_start_fails(2, "SOURCE", folder, "--cache-dir", folder / "cache")
    expect_start_fails(2, "SOURCE", folder, "--cache-dir", folder)
    (WORK / "c-open").mkdir()
    os.chmod(WORK / "c-open", 0o777)
    expect_start_fails(2, "others may write", folder, "--cache-dir", WORK / "c-open")
    if PEER:
        (WORK / "empty").mkdir()
        with slow(WORK / "empty", MIB, WORK / "remote") as remote:
            expect_start_fails(2, "type fuse", folder, "--cache-dir", remote)


def case_ended_under_load():
    # SIGTERM while many read, with the cache being written: readers get right bytes or errors, the daemon ends with 0
    folder, name, data = harness.packed_model("cache", mib=16)
    for _ in range(10 if LONG else 2):
        mount = Mount(folder, WORK / "mnt", cached("c-term", "--memory", "8MiB", "--grace", "1"), foreground=True)
        wrong, reads = [], [0]

        def read(seed):
            own = random.Random(seed)
            with contextlib.suppress(OSError):
                fd = os.open(mount.at / name, os.O_RDONLY)
                while True:
                    offset = own.randrange(len(data))
                    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                    got = os.pread(fd, 300_000, offset)
                    reads[0] += 1
                    if got != data[offset:offset + len(got)]:  # cut off, a read may be short
                        wrong.append(offset)

        threads = [threading.Thread(target=read, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        until(lambda: reads[0] > 20, "readers")
        mount.process.terminate()
        expect_equal(mount.process.wait(20), 0, "exit code under load")
        for thread in threads:
            thread.join(20)
        expect(not any(thread.is_alive() for thread in threads), "a reader hangs")
        expect(not wrong, f"WRONG BYTES at {wrong[:3]}")
        expect(not mount.mounted(), "still mounted")
        shutil.rmtree(WORK / "c-term", ignore_errors=True)


def case_pushing_ends_with_the_mount():
    # an ordinary user's small read-ahead: bytes are pushed; files closed, daemons ended and killed in the middle of it
    folder, name, data = harness.packed_model("push", mib=64)
    for how in ("read", "term", "kill"):
        mount = Mount(folder, WORK / "mnt", foreground=True)
        if os.getuid() == 0:
            bdi = pathlib.Path(f"/sys/class/bdi/{mount.device()}/read_ahead_kb")
            until(lambda: bdi.read_text().strip() != "128", "the daemon's own value")
            bdi.write_text("128")
        with contextlib.suppress(OSError):
            with open(mount.at / name, "rb", buffering=0) as file:
                for offset in range(0, len(data), MIB):
                    got = file.read(MIB)
                    expect(got == data[offset:offset + len(got)], f"differs in the MiB at {offset}")
                    whole = len(got) == len(data[offset:offset + MIB])
                    expect(whole or (how != "read" and offset > 16 * MIB), f"only {len(got)} bytes at {offset}")
                    if not whole:
                        break  # the daemon's end came in the middle of it
                    if how != "read" and offset == 16 * MIB:
                        os.kill(mount.pid, signal.SIGTERM if how == "term" else signal.SIGKILL)
        if how == "read":
            counters = mount.counters()
            expect(counters["pushed_bytes"] > 0, f"nothing was pushed: {counters}")
            harness.drop_caches(mount.at / name)
            expect_equal((mount.at / name).read_bytes(), data, "once more")
            mount.stop()
        until(lambda: not mount.running(), "the daemon's end", 15)
        if how != "kill":
            expect_equal(mount.process.wait(5), 0, "exit code")
        harness.unmount_all()


def case_mapped_files_are_pushed_whichever_way_they_are_copied():
    folder, name, data = harness.packed_model("push-mapped", mib=64)
    with Mount(folder, WORK / "mnt", foreground=True) as mount:
        for block in (MIB, 16 * MIB):
            offsets = list(range(0, len(data), block))
            for order in (offsets, offsets[::-1]):
                harness.drop_caches(mount.at / name)
                before = mount.counters()["pushed_bytes"]
                with open(mount.at / name, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapped:
                    for offset in order:
                        expect(mapped[offset:offset + block] == data[offset:offset + block], f"differs in the block at {offset}")
                if block == MIB and order != offsets:
                    expect(mount.counters()["pushed_bytes"] > before, "a reader who goes backwards is pushed nothing")


if __name__ == "__main__":
    harness.run(globals())
