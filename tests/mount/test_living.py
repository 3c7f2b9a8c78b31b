# SPDX-License-Identifier: Apache-2.0
"""Trees that change while they are mounted, and large ones. BREVIS_LONG=1: the longer forms."""
import hashlib
import mmap
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

import harness
from harness import MIB, TOOL, WORK, Mount, expect, expect_equal, until

LONG = os.environ.get("BREVIS_LONG") == "1"


def small(name, seed=1):
    return harness.packed_model(name, mib=2, seed=seed)


def put(archive, target):
    """As a packer does: whole, then renamed to its name."""
    shutil.copyfile(archive, str(target) + ".new")
    os.rename(str(target) + ".new", target)


def seen(mount, directories=1):
    """The watch has had its first look, so that what comes is a change."""
    until(lambda: mount.counters()["directories"] >= directories, "the first look at the tree")


def case_changes_are_seen_without_being_told():
    # S09: archives added, replaced and removed show at once where the file system tells of it, at the top and below
    tree = WORK / "events"
    folder, name, data = small("one")
    other_folder, _, other = small("two", 77)
    (tree / "sub").mkdir(parents=True)
    put(folder / (name + ".brv"), tree / "sub/a.brv")
    with Mount(tree, WORK / "mnt") as mount:
        seen(mount, 2)
        expect_equal((mount.at / "sub/a").read_bytes(), data, "before")
        put(other_folder / (name + ".brv"), tree / "sub/a.brv")
        until(lambda: mount.counters()["archives_replaced"] == 1, "the replacement")
        expect_equal((mount.at / "sub/a").read_bytes(), other, "after, although the kernel knew the name")
        put(folder / (name + ".brv"), tree / "b.brv")
        until(lambda: mount.counters()["archives_added"] == 1, "the addition")
        expect_equal(sorted(os.listdir(mount.at)), ["b", "sub"], "names")
        # a whole directory moved in, then away
        (WORK / "aside/deep").mkdir(parents=True)
        put(folder / (name + ".brv"), WORK / "aside/deep/c.brv")
        os.rename(WORK / "aside", tree / "moved")
        until(lambda: mount.counters()["archives_added"] == 2, "the archive in a directory that was moved in")
        put(other_folder / (name + ".brv"), tree / "moved/deep/c.brv")
        until(lambda: mount.counters()["archives_replaced"] == 2, "a change in there")
        expect_equal((mount.at / "moved/deep/c").read_bytes(), other, "its file")
        os.rename(tree / "moved", WORK / "aside")
        until(lambda: mount.counters()["archives_removed"] == 1, "the directory that was moved away")
        put(folder / (name + ".brv"), WORK / "aside/deep/c.brv")  # nobody's business any more
        (tree / "b.brv").unlink()
        until(lambda: mount.counters()["archives_removed"] == 2, "the removal")
        expect_equal(os.listdir(mount.at), ["sub"], "names")
        counters = mount.counters()
        expect_equal([counters[k] for k in ("archives", "directories", "archives_replaced")], [1, 2, 2], "counters")
        expect(mount.lines("an archive appeared") and mount.lines("an archive was replaced") and mount.lines("an archive vanished"),
               "no lines about the changes")


def case_a_copy_under_way_is_not_shown():
    # an archive that is copied in place keeps its own name until it is whole
    tree = WORK / "partial"
    folder, name, data = small("one")
    archive = (folder / (name + ".brv")).read_bytes()
    tree.mkdir()
    with Mount(tree, WORK / "mnt") as mount:
        seen(mount)
        with open(tree / "m.brv", "wb", buffering=0) as file:
            for part in (archive[:40], archive[40:70], archive[70:MIB], archive[MIB:-1]):
                file.write(part)
                expect_equal(os.listdir(mount.at), ["m.brv"], "names while it is copied")
                expect(not (mount.at / "m").exists(), "half an archive is shown")
            file.write(archive[-1:])
        until(lambda: (mount.at / "m").exists(), "the whole archive")
        expect_equal((mount.at / "m").read_bytes(), data, "its file")
        expect_equal(os.listdir(mount.at), ["m"], "names")
        until(lambda: mount.counters()["archives_added"] == 1, "the addition")
        expect_equal(len(mount.lines("an archive appeared")), 1, "lines")


READER = """
import hashlib, mmap, os, sys, threading
path, stop, good = sys.argv[1], sys.argv[2], set(sys.argv[3:])
bad, rounds, lock = [], [0], threading.Lock()

def digest(area):
    h = hashlib.sha256()
    for at in range(0, len(area), 1 << 18):
        h.update(area[at:at + (1 << 18)])
    return h.hexdigest()

def read():
    fd = os.open(path, os.O_RDONLY)
    kept = mmap.mmap(fd, 0, prot=mmap.PROT_READ)
    first = digest(kept)
    while not os.path.exists(stop):
        try:
            with open(path, "rb") as file:
                with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as area:
                    got = digest(area)
        except FileNotFoundError as e:  # never: a rename has no gap
            got = str(e)
        except OSError as e:
            # The name was looked up before the replacement and opened after it: the kernel says so, once.
            if e.errno != 116:
                raise
            continue
        with lock:
            rounds[0] += 1
            if got not in good:
                bad.append(got)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    kept.madvise(mmap.MADV_DONTNEED)
    if first not in good or digest(kept) != first:
        bad.append("what was mapped from the start has changed")

threads = [threading.Thread(target=read) for _ in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print(rounds[0])
sys.exit("\\n".join(bad[:5]) if bad else 0)
"""


def case_replaced_under_mapped_readers():
    # each reader sees the whole old file or the whole new one, and keeps what it has mapped
    tree = WORK / "swap"
    tree.mkdir()
    folders = [small("one"), small("two", 77)]
    archives = [f / (n + ".brv") for f, n, _ in folders]
    good = [hashlib.sha256(data).hexdigest() for _, _, data in folders]
    put(archives[0], tree / "m.brv")
    stop = WORK / "stop-reading"
    count = 2000 if LONG else 100
    with Mount(tree, options=["--memory", "16MiB"]) as mount:  # in place: half of them go through the daemon's hands
        readers = [subprocess.Popen([sys.executable, "-c", READER, str(mount.at / "m"), str(stop), *good], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True) for _ in range(4)]
        until(lambda: mount.counters()["open_files"] >= 16, "16 readers", 60)
        for i in range(count):
            done = subprocess.run([TOOL, "replace", "-q", str(tree), str(make_named(archives[(i + 1) % 2], "m.brv"))],
                                  capture_output=True, text=True, timeout=60, check=False)
            expect_equal((done.returncode, done.stderr), (0, ""), "brevis replace")
        expect(all(r.poll() is None for r in readers), "a reader has ended early")
        stop.touch()
        rounds = 0
        for reader in readers:
            out, errors = reader.communicate(timeout=120)
            expect_equal(reader.returncode, 0, f"a reader's end ({errors})")
            rounds += int(out)
        expect(rounds >= 16, f"only {rounds} reads of the file")
        expect_equal((mount.at / "m").read_bytes(), folders[count % 2][2], "the last one")
        # two that follow closely may be seen as one
        until(lambda: 1 <= mount.counters()["archives_replaced"] <= count, "the replacements")
        until(lambda: mount.counters()["open_files"] == 0, "closed files")
    stop.unlink()


def make_named(archive, name):
    folder = WORK / "named" / archive.parent.name
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / name).exists():
        os.link(archive, folder / name)
    return folder / name


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def seconds(call, mount):
    """How long it takes; on a machine that is busy otherwise, how much of the processors it takes on both sides."""
    began, daemon = time.monotonic(), cpu_of(mount.pid)
    own = sum(os.times()[:4])
    call()
    return min(time.monotonic() - began, cpu_of(mount.pid) - daemon + sum(os.times()[:4]) - own)


def case_ten_thousand_archives():
    # listing and stat of 10,000 archives take less than a second each, cold; every archive is a file of its own
    tree, count = WORK / "many", 10_000
    tree.mkdir()
    plain = WORK / "tiny.safetensors"
    plain.write_bytes(harness.safetensors([("w", "BF16", [64], harness.weights("BF16", 64, 1))]))
    harness.pack(plain, WORK / "tiny.brv")
    archive = (WORK / "tiny.brv").read_bytes()
    for i in range(count):
        (tree / f"m{i}.safetensors.brv").write_bytes(archive)
        os.utime(tree / f"m{i}.safetensors.brv", (1e9, 1e9))  # as trees mostly are: written some time ago
    limit = 10 if harness.sanitized() else 1
    with Mount(tree, WORK / "mnt") as mount:
        listed = []
        took = seconds(lambda: listed.extend(os.listdir(mount.at)), mount)
        expect_equal(len(listed), count, "names")
        expect(took < limit, f"listing took {took:.2f} s")
        time.sleep(1.1)  # every name is forgotten
        took_stat = seconds(lambda: [os.stat(mount.at / name) for name in listed], mount)
        expect(took_stat < limit, f"stat of all took {took_stat:.2f} s")
        expect_equal({os.stat(mount.at / n).st_size for n in listed[::100]}, {plain.stat().st_size}, "sizes")
        took_ls = seconds(lambda: subprocess.run(["ls", "-l", str(mount.at)], stdout=subprocess.DEVNULL, check=True), mount)
        expect(took_ls < 2 * limit, f"ls -l took {took_ls:.2f} s")
        until(lambda: mount.counters()["archives"] == count, "all archives are counted")
        expect((mount.at / listed[0]).read_bytes() == plain.read_bytes(), "the bytes of one")
        print(f"      listing {took:.3f} s, stat {took_stat:.3f} s, ls -l {took_ls:.3f} s")


def case_a_hundred_thousand_tensors():
    # F25: the first read of a file with 100,000 tensors takes less than a second
    count, size = 100_000, 1024 if LONG else 16
    data = random.Random(5).randbytes(count * size)
    tensors = [(f"blocks.{i}.w", "U8", [size], data[i * size:(i + 1) * size]) for i in range(count)]
    plain = WORK / "tensors.safetensors"
    plain.write_bytes(harness.safetensors(tensors))
    tree = WORK / "tensors"
    tree.mkdir()
    harness.pack(plain, tree / "t.safetensors.brv")
    harness.drop_caches(tree / "t.safetensors.brv")
    with Mount(tree, WORK / "mnt") as mount:
        def first():
            with open(mount.at / "t.safetensors", "rb", buffering=0) as file:
                expect_equal(os.pread(file.fileno(), 4096, 50_000_0), plain.read_bytes()[50_000_0:50_000_0 + 4096], "a read")

        took = seconds(first, mount)
        expect(took < (10 if harness.sanitized() else 1), f"the first read took {took:.2f} s")
        expect_equal((mount.at / "t.safetensors").read_bytes(), plain.read_bytes(), "the whole file")
        print(f"      first read {took:.3f} s")


def case_looked_at_again_on_request_and_on_time():
    tree = WORK / "again"
    folder, name, _ = small("one")
    tree.mkdir()
    put(folder / (name + ".brv"), tree / "a.brv")
    with Mount(tree, WORK / "mnt", ["--rescan", "1"]) as mount:
        until(lambda: mount.counters()["rescans"] >= 2, "looks on time")
    with Mount(tree, WORK / "mnt", ["--rescan", "0"]) as mount:
        seen(mount)
        os.kill(mount.pid, signal.SIGHUP)
        until(lambda: mount.counters()["rescans"] == 1, "a look on SIGHUP")
        # a file system in user space tells of nothing: what happens is found by looking
        with Mount(mount.at, WORK / "mnt2", ["--rescan", "1"]) as over:
            seen(over)
            put(folder / (name + ".brv"), tree / "later.brv")
            (tree / "plain.brv").write_text("no archive")
            until(lambda: "later" in os.listdir(over.at), "the new file, through both")
            stats = subprocess.run([TOOL, "stats", "--json", str(over.at)], capture_output=True, text=True, check=True).stdout
            expect('"tree_events":false' in stats, "a FUSE file system is said to tell of changes")
            until(lambda: over.counters()["rescans"] >= 2, "looks on time")


if __name__ == "__main__":
    harness.run(globals())
