# SPDX-License-Identifier: Apache-2.0
"""A mounted file read by every kind of call, against the original."""
import ctypes
import errno
import hashlib
import mmap
import os
import random
import shutil
import subprocess
import threading

import harness
from harness import MIB, WORK, Mount, expect, expect_equal, expect_errno

MEMORY = ["--memory", "4MiB"]  # far less than the file, so that frames come and go


def served(options=()):
    folder, name, data = harness.packed_model("read", mib=12)
    mount = Mount(folder, WORK / "mnt-read", [*MEMORY, *options])
    return mount, mount.at / name, data


def ranges(size, seed, count):
    source = random.Random(seed)
    yield from ((0, 0), (0, 1), (size - 1, 1), (size - 1, 100), (size, 10), (size + 12345, 10))
    for _ in range(count):
        yield source.randrange(size), source.choice([1, 7, 511, 4096, 65537, 524288, 524289, MIB, 3 * MIB])


def case_whole_file():
    mount, path, data = served()
    with mount:
        expect_equal(path.stat().st_size, len(data), "size")
        expect_equal(path.read_bytes(), data, "read")
        # Z11: the digest of the mounted file is the original's
        expect_equal(hashlib.sha256(path.read_bytes()).hexdigest(), hashlib.sha256(data).hexdigest(), "sha256")
        expect(path.stat().st_blocks * 512 >= len(data), "st_blocks too small: cp would write holes")
        expect_equal(sorted(os.listdir(mount.at)), [path.name], "the listing")


def case_pread():
    mount, path, data = served()
    with mount:
        fd = os.open(path, os.O_RDONLY)
        for offset, length in ranges(len(data), 1, 300):
            expect_equal(os.pread(fd, length, offset), data[offset:offset + length], f"pread {offset}+{length}")
        os.close(fd)


def case_direct():
    mount, path, data = served()
    with mount:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        buffer = mmap.mmap(-1, 3 * MIB)
        for offset, length in ranges(len(data), 2, 150):
            for o, n in ((offset // 4096 * 4096, -(-length // 4096) * 4096), (offset, length)):  # aligned; not
                got = os.preadv(fd, [memoryview(buffer)[:n]], o)
                expect_equal(buffer[:got], data[o:o + n], f"O_DIRECT {o}+{n}")
        os.close(fd)


def case_mmap():
    # M06: shared and private mappings, also written to, never ENODEV
    mount, path, data = served()
    with mount:
        fd = os.open(path, os.O_RDONLY)
        for flags, prot in ((mmap.MAP_SHARED, mmap.PROT_READ), (mmap.MAP_PRIVATE, mmap.PROT_READ),
                            (mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE)):
            view = mmap.mmap(fd, len(data), flags, prot)
            expect_equal(view[:], data, f"mmap {flags} {prot}")
            if prot & mmap.PROT_WRITE:
                view[5] ^= 1
                expect(view[5] == data[5] ^ 1, "a private mapping takes writes")
            view.close()
        expect_equal(os.pread(fd, 64, 0), data[:64], "what the private mapping wrote stays private")
        expect_errno(errno.EACCES, "a shared writable mapping", lambda: mmap.mmap(fd, len(data), mmap.MAP_SHARED))
        os.close(fd)


def case_sendfile_and_copies():
    mount, path, data = served()
    copy = WORK / "copy"
    with mount:
        with open(path, "rb") as a, open(copy, "wb") as b:
            left = 0
            while left < len(data):
                left += os.sendfile(b.fileno(), a.fileno(), left, 5 * MIB)
        expect_equal(copy.read_bytes(), data, "sendfile")
        shutil.copyfile(path, copy)
        expect_equal(copy.read_bytes(), data, "copyfile")
        for command in (["cp"], ["cp", "--sparse=always"], ["cp", "--reflink=auto"], ["dd", "bs=64k", "status=none"]):
            copy.unlink()
            names = [f"if={path}", f"of={copy}"] if command[0] == "dd" else [str(path), str(copy)]
            subprocess.run(command + names, check=True)
            expect_equal(copy.read_bytes(), data, " ".join(command))


def case_seek_data_and_hole():
    mount, path, data = served()
    with mount:
        fd = os.open(path, os.O_RDONLY)
        expect_equal(os.lseek(fd, 0, os.SEEK_DATA), 0, "SEEK_DATA 0")
        expect_equal(os.lseek(fd, 4097, os.SEEK_DATA), 4097, "SEEK_DATA inside")
        expect_equal(os.lseek(fd, 1, os.SEEK_HOLE), len(data), "SEEK_HOLE")
        expect_errno(errno.ENXIO, "SEEK_DATA at the end", lambda: os.lseek(fd, len(data), os.SEEK_DATA))
        os.close(fd)


def readers(path, data, count, rounds, lengths):
    """`count` threads with a descriptor each; the first complaint."""
    wrong = []

    def one(seed):
        source = random.Random(seed)
        fd = os.open(path, os.O_RDONLY)
        for _ in range(rounds):
            offset, length = source.randrange(len(data)), source.choice(lengths)
            if os.pread(fd, length, offset) != data[offset:offset + length]:
                wrong.append(f"reader {seed}: {offset}+{length} differs")
        os.close(fd)

    threads = [threading.Thread(target=one, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expect(not wrong, "; ".join(wrong[:3]))


def case_many_readers():
    mount, path, data = served()
    with mount:
        readers(path, data, 32, 60, [4096, 65536, MIB])
        harness.drop_caches(path)
        readers(path, data, 64, 100, [4096, 131072])
        expect_equal(path.read_bytes(), data, "the whole afterwards")


def case_one_loop_thread():
    mount, path, data = served(["--loop-threads", "1", "--jobs", "1"])
    with mount:
        readers(path, data, 8, 20, [4096, MIB])
        expect_equal(path.read_bytes(), data, "read")


def case_writes_are_refused():
    # M22: a read-only tree says EROFS, whatever is tried
    mount, path, _ = served()
    with mount:
        attempts = {
            "open(O_RDWR)": lambda: os.open(path, os.O_RDWR),
            "open(O_WRONLY|O_TRUNC)": lambda: os.open(path, os.O_WRONLY | os.O_TRUNC),
            "open(O_CREAT)": lambda: os.open(mount.at / "new", os.O_CREAT | os.O_WRONLY),
            "mkdir": lambda: os.mkdir(mount.at / "new"),
            "utimensat": lambda: os.utime(path),
            "chmod": lambda: os.chmod(path, 0o600),
            "chown": lambda: os.chown(path, 1, 1),
            "truncate": lambda: os.truncate(path, 1),
            "setxattr": lambda: os.setxattr(path, "user.test", b"1"),
            "removexattr": lambda: os.removexattr(path, "user.brevis.format"),
            "unlink": lambda: os.unlink(path),
            "rename": lambda: os.rename(path, mount.at / "new"),
            "link": lambda: os.link(path, mount.at / "new"),
            "symlink": lambda: os.symlink("x", mount.at / "new"),
        }
        for what, attempt in attempts.items():
            expect_errno(errno.EROFS, what, attempt)
        expect(not os.access(path, os.W_OK), "access(W_OK) on a read-only file system")


def case_attributes_and_space():
    folder, name, data = harness.packed_model("read", mib=12)
    mount, path, _ = served()
    with mount:
        archive = (folder / (name + ".brv")).stat()
        got = path.stat()
        expect_equal((got.st_mode, got.st_uid, got.st_gid), (archive.st_mode, archive.st_uid, archive.st_gid), "mode, owner")
        expect_equal(got.st_mtime_ns, archive.st_mtime_ns, "mtime")
        names = os.listxattr(path)
        for suffix in ("sha256", "ratio", "archive", "format"):
            expect("user.brevis." + suffix in names, f"user.brevis.{suffix} is missing among {names}")
        expect_equal(os.getxattr(path, "user.brevis.sha256").decode(), hashlib.sha256(data).hexdigest(), "user.brevis.sha256")
        expect_errno(errno.ENODATA, "an attribute that is not there", lambda: os.getxattr(path, "user.brevis.none"))
        expect_errno(errno.ENODATA, "a foreign attribute", lambda: os.getxattr(path, "user.other"))
        here, there = os.statvfs(mount.at), os.statvfs(folder)
        expect_equal((here.f_frsize, here.f_blocks), (there.f_frsize, there.f_blocks), "statvfs")
        expect_errno(errno.ENOENT, "a missing name", lambda: os.stat(mount.at / "missing"))
        expect_errno(errno.ENOTDIR, "a file as a directory", lambda: os.listdir(path))


class Iocb(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("key", ctypes.c_uint32), ("rw_flags", ctypes.c_int32),
                ("opcode", ctypes.c_uint16), ("prio", ctypes.c_int16), ("fd", ctypes.c_uint32), ("buf", ctypes.c_uint64),
                ("nbytes", ctypes.c_uint64), ("offset", ctypes.c_int64), ("reserved2", ctypes.c_uint64),
                ("flags", ctypes.c_uint32), ("resfd", ctypes.c_uint32)]


class IoEvent(ctypes.Structure):
    _fields_ = [("data", ctypes.c_uint64), ("obj", ctypes.c_uint64), ("res", ctypes.c_int64), ("res2", ctypes.c_int64)]


def case_asynchronous_reads():
    # M14: many O_DIRECT reads under way at once through the kernel's asynchronous interface
    if os.uname().machine != "x86_64":
        return  # the numbers below are that machine's
    io_setup, io_destroy, io_getevents, io_submit = 206, 207, 208, 209
    libc = ctypes.CDLL(None, use_errno=True)
    mount, path, data = served()
    with mount:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        context = ctypes.c_uint64()
        expect(libc.syscall(io_setup, 32, ctypes.byref(context)) == 0, "io_setup")
        area = mmap.mmap(-1, 32 * MIB)
        base = ctypes.addressof(ctypes.c_char.from_buffer(area))
        source = random.Random(7)
        want = [(source.randrange(len(data) // 4096) * 4096, source.choice([4096, 65536, MIB])) for _ in range(32)]
        blocks = (Iocb * 32)(*[Iocb(data=i, opcode=0, fd=fd, buf=base + i * MIB, nbytes=n, offset=o)
                               for i, (o, n) in enumerate(want)])
        pointers = (ctypes.c_void_p * 32)(*[ctypes.addressof(b) for b in blocks])
        expect(libc.syscall(io_submit, context, ctypes.c_long(32), pointers) == 32, "io_submit")
        events = (IoEvent * 32)()
        expect(libc.syscall(io_getevents, context, ctypes.c_long(32), ctypes.c_long(32), events, None) == 32, "io_getevents")
        for event in events:
            offset, length = want[event.data]
            part = ctypes.string_at(base + event.data * MIB, max(event.res, 0))
            expect_equal(part, data[offset:offset + length], f"asynchronous read {offset}+{length} ({event.res})")
        libc.syscall(io_destroy, context)
        os.close(fd)


if __name__ == "__main__":
    harness.run(globals())
