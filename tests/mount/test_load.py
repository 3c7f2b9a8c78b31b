# SPDX-License-Identifier: Apache-2.0
"""How loaders read: request sizes, work done once, bounded memory, nobody held up. Counted, not timed."""
import ctypes
import mmap
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import threading
import time

import harness
from harness import MIB, WORK, Mount, expect, expect_equal, until

# With BREVIS_LONG set the whole numbers of the cases, else shares of them that take seconds.
LONG = bool(os.environ.get("BREVIS_LONG"))
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.memcpy.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
LIBC.mmap.restype = ctypes.c_void_p
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


class Mapping:
    """A file mapped where threads can fault its pages without holding Python's lock."""

    def __init__(self, path):
        fd = os.open(path, os.O_RDONLY)
        self.size = os.fstat(fd).st_size
        self.at = LIBC.mmap(None, self.size, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        os.close(fd)
        expect(self.at not in (None, ctypes.c_void_p(-1).value), "mmap")

    def copy(self, offset, length):
        out = ctypes.create_string_buffer(length)
        LIBC.memcpy(out, self.at + offset, length)
        return out.raw

    def close(self):
        LIBC.munmap(self.at, self.size)


def in_threads(count, work):
    """Runs work(i) in `count` threads; fails with the first complaint."""
    wrong = []

    def one(i):
        try:
            work(i)
        except Exception as e:  # noqa: BLE001 - to be told in the main thread
            wrong.append(f"thread {i}: {e}")

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not wrong, "; ".join(map(str, wrong[:3])))


def change(mount, before):
    return {k: v - before[k] for k, v in mount.counters().items()}


def case_mapped_walks_ask_in_large_pieces():
    # M01, M02, M03: a mapped walk asks in large pieces and for each byte once, as read() does; a second walk asks nothing
    folder, name, data = harness.packed_model("load", mib=32)
    for options in ([], ["--memory", "8MiB"]):
        with Mount(folder, WORK / "mnt", options) as mount:
            before = mount.counters()
            expect_equal((mount.at / name).read_bytes(), data, "read")
            by_read = change(mount, before)
            harness.drop_caches(mount.at / name)
            mapping = Mapping(mount.at / name)
            before = mount.counters()
            for offset in range(0, len(data), 4096):
                expect(mapping.copy(offset, 1)[0] == data[offset], f"byte {offset} differs")
            by_mapping = change(mount, before)
            for what, got in (("read()", by_read), ("a mapped walk", by_mapping)):
                mean = got["bytes_read"] / got["reads"]
                expect(mean >= 128 << 10, f"{what} asks for {mean:.0f} bytes at a time")
                expect(got["bytes_read"] <= 1.1 * len(data), f"{what} asked for {got['bytes_read']} bytes of {len(data)}")
            before = mount.counters()
            for offset in range(0, len(data), 4096):
                mapping.copy(offset, 1)
            expect_equal(change(mount, before)["reads"], 0, "reads of a second walk")
            mapping.close()


def case_many_threads_fault_many_files():
    # M07: 64 threads fault random pages of 8 files with next to no memory: all end, nobody waits long, the queue empties
    tree = WORK / "eight"
    tree.mkdir()
    want = []
    for i in range(8):
        folder, name, data = harness.packed_model(f"eight.{i}", mib=4, seed=i)
        shutil.copyfile(folder / (name + ".brv"), tree / f"{i}.safetensors.brv")
        want.append(data)
    with Mount(tree, WORK / "mnt", ["--memory", "2MiB"]) as mount:
        mappings = [Mapping(mount.at / f"{i}.safetensors") for i in range(8)]
        longest = [0.0] * 64

        def fault(i):
            source = random.Random(i)
            for _ in range(2000 if LONG else 40):
                which = source.randrange(8)
                offset = source.randrange(len(want[which]) - 16)
                began = time.monotonic()
                got = mappings[which].copy(offset, 16)
                longest[i] = max(longest[i], time.monotonic() - began)
                expect_equal(got, want[which][offset:offset + 16], f"file {which} at {offset}")

        in_threads(64, fault)
        for mapping in mappings:
            mapping.close()
        expect(max(longest) < (60 if harness.sanitized() else 5), f"a page took {max(longest):.1f} s")
        waiting = pathlib.Path("/sys/fs/fuse/connections", mount.device().split(":")[1], "waiting")
        if waiting.exists():
            until(lambda: waiting.read_text().strip() == "0", "requests are still waiting")
        # and large reads arrive in pieces of 1 MiB
        before = mount.counters()
        fd = os.open(mount.at / "0.safetensors", os.O_RDONLY | os.O_DIRECT)
        area = mmap.mmap(-1, 4 * MIB)
        expect_equal(os.preadv(fd, [area], 0), 4 * MIB, "a read of 4 MiB")
        os.close(fd)
        expect(change(mount, before)["reads"] <= 5, f"a read of 4 MiB came in {change(mount, before)['reads']} pieces")


def case_many_handles_and_random_reads_keep_the_memory_cap():
    # M11, D02, D06: 500 open handles and random 4 KiB reads from 32 threads: right bytes, memory within the cap + 64 MiB
    tree = WORK / "handles"
    tree.mkdir()
    want = []
    for i in range(4):
        folder, name, data = harness.packed_model(f"handles.{i}", mib=12, seed=i)
        shutil.copyfile(folder / (name + ".brv"), tree / f"{i}.safetensors.brv")
        want.append(data)
    cap = 16 * MIB
    with Mount(tree, WORK / "mnt", ["--memory", "16MiB"]) as mount:
        handles = [(i % 4, os.open(mount.at / f"{i % 4}.safetensors", os.O_RDONLY | os.O_DIRECT)) for i in range(500)]
        expect(mount.counters()["open_files"] == 500, f"open_files {mount.counters()['open_files']}")

        def read(i):
            source = random.Random(i)
            area = mmap.mmap(-1, 4096)
            for _ in range(3125 if LONG else 100):
                which, fd = source.choice(handles)
                offset = source.randrange(len(want[which]) // 4096) * 4096
                got = os.preadv(fd, [area], offset)
                expect(area[:got] == want[which][offset:offset + 4096], f"file {which} at {offset} differs")

        in_threads(32, read)
        for i in range(4):  # and streams beside
            expect_equal((mount.at / f"{i}.safetensors").read_bytes(), want[i], f"file {i}")
        most = mount.rss()[1]
        expect(harness.sanitized() or most <= cap + 64 * MIB, f"resident {most >> 20} MiB with --memory 16MiB")
        for _, fd in handles:
            os.close(fd)
        until(lambda: mount.counters()["open_files"] == 0, "closed files are still open")


def case_dropped_pages_are_gone():
    # M15: after DONTNEED nothing of the file is in the page cache; with no memory for frames it is decoded straight through
    folder, name, data = harness.packed_model("load", mib=32)
    for memory in ("64MiB", "0"):
        with Mount(folder, WORK / "mnt", ["--memory", memory]) as mount:
            expect_equal((mount.at / name).read_bytes(), data, f"read with --memory {memory}")
            harness.drop_caches(mount.at / name)
            pages = subprocess.run(["fincore", "-b", "-n", "-o", "PAGES", mount.at / name], capture_output=True, text=True, check=True)
            expect_equal(pages.stdout.split(), ["0"], "pages in the page cache")
            held = mount.counters()["cache_bytes"]
            expect(held <= (64 * MIB if memory != "0" else 0), f"{held} bytes of frames held with --memory {memory}")


def case_streamer():
    # M20: 8 bytes, the header, then 16 readers of 2 MiB at once; the header needs no tensor data
    folder, name, data = harness.packed_model("load", mib=32)
    with Mount(folder, WORK / "mnt") as mount:
        fd = os.open(mount.at / name, os.O_RDONLY | os.O_DIRECT)
        area = mmap.mmap(-1, MIB)
        expect_equal(os.preadv(fd, [memoryview(area)[:8]], 0), 8, "the first 8 bytes")
        length = struct.unpack("<Q", area[:8])[0]
        expect_equal(os.preadv(fd, [memoryview(area)[:length]], 8), length, "the header")
        expect_equal(area[:length], data[8:8 + length], "the header")
        expect(mount.counters()["frames_decoded"] <= 1, "tensors were decoded for the header, which is a frame of its own")
        os.close(fd)

        def stream(i):
            own = os.open(mount.at / name, os.O_RDONLY)
            offset = 8 + length + i * 2 * MIB
            expect_equal(os.pread(own, 2 * MIB, offset), data[offset:offset + 2 * MIB], f"block {i}")
            os.close(own)

        in_threads(16, stream)


def case_each_frame_is_decoded_once():
    # M18: sixteen readers of the whole file at once; the work is done once
    folder, name, data = harness.packed_model("load", mib=32)
    decoded = []
    for count in (1, 16):
        with Mount(folder, WORK / "mnt", ["--memory", "256MiB"]) as mount:
            def read(_):
                fd = os.open(mount.at / name, os.O_RDONLY | os.O_DIRECT)
                area = mmap.mmap(-1, MIB)
                for offset in range(0, len(data), MIB):
                    got = os.preadv(fd, [area], offset)
                    expect(area[:got] == data[offset:offset + MIB], f"differs in the MiB at {offset}")
                os.close(fd)

            in_threads(count, read)
            decoded.append(mount.counters()["frames_decoded"])
    expect_equal(decoded[1], decoded[0], "frames decoded by 16 readers, by one")


def case_threads_stay():
    # M24: the number of threads does not change under load
    folder, name, data = harness.packed_model("load", mib=32)
    with Mount(folder, WORK / "mnt", ["--memory", "8MiB"]) as mount:
        expect_equal((mount.at / name).read_bytes(), data, "read")
        before, seen = mount.threads(), set()

        def read(i):
            source = random.Random(i)
            fd = os.open(mount.at / name, os.O_RDONLY)
            for _ in range(30):
                offset = source.randrange(len(data))
                expect(os.pread(fd, 65536, offset) == data[offset:offset + 65536], f"differs at {offset}")
                seen.add(mount.threads())
            os.close(fd)

        in_threads(64, read)
        expect_equal(seen, {before}, "threads under load")


def case_a_stalled_archive_holds_up_nobody_else():
    # M24: the storage of one archive stops answering (a mount whose daemon is stopped); readers of others go on
    if os.getuid() != 0:
        return  # binding a folder of the stalled mount into the tree needs root
    folder, name, data = harness.packed_model("load", mib=32)
    slow_folder, _, slow_data = harness.packed_model("slow", mib=8, seed=5)
    tree = WORK / "stalled"
    shutil.copytree(folder, tree)
    (tree / "slow").mkdir()
    (tree / "other").mkdir()
    (tree / "other/file").write_text("x")
    with Mount(slow_folder, WORK / "storage") as storage:
        subprocess.run(["mount", "--bind", storage.at / ".brevis", tree / "slow"], check=True)
        try:
            stalled_reads(storage, tree, name, data, slow_data)
            stalled_names(storage, tree, name, data)
            ended_while_stalled(storage, tree)
        finally:
            os.kill(storage.pid, signal.SIGCONT)
            subprocess.run(["umount", "-l", tree / "slow"], check=True)


def looked_at(mount):
    """The daemon's own look at the tree is over: what the kernel has handed to stalled storage outlives even a kill."""
    until(lambda: mount.counters()["archives"] == 2, "a look at the whole tree", 20)


def stalled_reads(storage, tree, name, data, slow_data):
    with Mount(tree, WORK / "mnt") as mount:
        slow = [os.open(mount.at / "slow" / name, os.O_RDONLY | os.O_DIRECT) for _ in range(4)]
        fast = os.open(mount.at / name, os.O_RDONLY | os.O_DIRECT)
        looked_at(mount)
        storage.freeze()
        answered = []

        def wait(i):
            area = mmap.mmap(-1, MIB)
            got = os.preadv(slow[i], [area], i * 2 * MIB)
            answered.append(area[:got] == slow_data[i * 2 * MIB:(i * 2 + 1) * MIB])

        threads = [threading.Thread(target=wait, args=(i,)) for i in range(4)]
        rescue = threading.Timer(30, os.kill, (storage.pid, signal.SIGCONT))  # or a failure would hang for ever
        rescue.start()
        try:
            for thread in threads:
                thread.start()
            time.sleep(0.3)
            area = mmap.mmap(-1, MIB)
            began = time.monotonic()
            for offset in range(0, len(data), MIB):
                got = os.preadv(fast, [area], offset)
                expect(area[:got] == data[offset:offset + MIB], f"differs at {offset}")
            took = time.monotonic() - began
            expect(not answered, f"the stalled storage answered within {took:.1f} s: the case tests nothing")
            expect(took < 20, "others were held up")
        finally:
            rescue.cancel()
            os.kill(storage.pid, signal.SIGCONT)
            for thread in threads:
                thread.join()
            for fd in (*slow, fast):
                os.close(fd)
        expect_equal(answered, [True] * 4, "the stalled reads in the end")


def stalled_names(storage, tree, name, data):
    """The same for names: more look-ups hang than there are threads; a listing and a read beside them go on."""
    with Mount(tree, WORK / "mnt", ["--loop-threads", "2"]) as mount:
        expect((mount.at / "slow").is_dir(), "the folder")
        looked_at(mount)
        time.sleep(1.2)  # until the kernel asks again
        storage.freeze()
        lookers = [subprocess.Popen(["stat", mount.at / "slow" / f"{i}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for i in range(4)]
        rescue = threading.Timer(40, os.kill, (storage.pid, signal.SIGCONT))
        rescue.start()
        try:
            took = [time.monotonic()]  # for the report: what was slow
            until(lambda: mount.lines("others join"), "a spare thread", 20)
            took.append(time.monotonic())
            expect_equal(os.listdir(mount.at / "other"), ["file"], "a listing")
            took.append(time.monotonic())
            expect_equal((mount.at / name).read_bytes(), data, "the other file")
            took = [round(b - a, 1) for a, b in zip(took, took[1:] + [time.monotonic()])]
            expect(all(p.poll() is None for p in lookers),
                   f"the stalled storage answered look-ups: the case tests nothing (spare thread, listing, reading: {took} s)")
        finally:
            rescue.cancel()
            os.kill(storage.pid, signal.SIGCONT)
            for looker in lookers:
                looker.wait(30)


def ended_while_stalled(storage, tree):
    """SIGTERM while every thread hangs: the daemon ends nevertheless."""
    mount = Mount(tree, WORK / "mnt", ["--loop-threads", "2", "--grace", "1"], foreground=True)
    looked_at(mount)
    storage.freeze()
    lookers = [subprocess.Popen(["stat", mount.at / "slow" / f"{i}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
               for i in range(3)]
    try:
        time.sleep(0.7)
        mount.process.terminate()
        expect_equal(mount.process.wait(15), 0, "exit code")
        expect(not mount.mounted(), "still mounted")
        expect_equal([p.wait(5) for p in lookers], [1] * 3, "the hanging look-ups")
    finally:
        os.kill(storage.pid, signal.SIGCONT)
        for looker in lookers:
            looker.wait(30)


def case_mounting_reads_headers_only():
    # D07: 1,000 archives mounted, listed and examined: nothing but their first bytes is read
    tree = WORK / "thousand"
    tree.mkdir()
    data = harness.safetensors([("w", "BF16", [20000], harness.weights("BF16", 20000, "tiny"))])
    (WORK / "tiny.safetensors").write_bytes(data)
    harness.pack(WORK / "tiny.safetensors", WORK / "tiny.brv")
    archive = (WORK / "tiny.brv").read_bytes()
    for i in range(1000):
        (tree / f"{i:04}.safetensors.brv").write_bytes(archive)
    with Mount(tree, WORK / "mnt") as mount:
        before = mount.counters()
        sizes = {entry.stat().st_size for entry in os.scandir(mount.at)}
        expect_equal(sizes, {len(data)}, "sizes")
        read = int(dict(line.split(": ") for line in pathlib.Path(f"/proc/{mount.pid}/io").read_text().splitlines())["rchar"])
        # a request of the kernel is read, too: some 100 bytes a name
        expect(read < 1000 * 400 + 256 * 1024, f"{read} bytes read for 1,000 names")
        expect_equal(change(mount, before)["frames_decoded"], 0, "frames decoded")
        expect_equal((mount.at / "0999.safetensors").read_bytes(), data, "the last of them")


if __name__ == "__main__":
    harness.run(globals())
