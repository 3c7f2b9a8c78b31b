# SPDX-License-Identifier: Apache-2.0
"""A killed daemon whose connection stays open: the guard cuts it, and --unmount does.

In the kernel a thread that stores into the page cache may keep a dead daemon's connection open. Here the test does, by a
copy of the descriptor, which needs no race.
"""
import contextlib
import ctypes
import errno
import mmap
import os
import pathlib
import select
import shutil
import signal
import subprocess
import time

import harness
from harness import MOUNT, NOBODY, WORK, Mount, expect, expect_equal, until

LIBC = ctypes.CDLL(None, use_errno=True)
PIDFD_OPEN, PIDFD_GETFD = 434, 438


def small():
    return harness.packed_model("guard", mib=2)


def guard_of(mount):
    """The pid of the daemon's guard, or None."""
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, ValueError):
            comm, _, rest = pathlib.Path("/proc", str(int(name)), "stat").read_text().partition("(")[2].rpartition(")")
            if comm == "brevis-guard" and int(rest.split()[1]) == mount.pid and rest.split()[0] != "Z":
                return int(name)
    return None


def alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class HeldConnection:
    """A copy of the daemon's descriptor of /dev/fuse. At the end the connection is cut, whatever the case came to."""

    def __init__(self, mount):
        self.device = mount.device()
        device = os.stat("/dev/fuse").st_rdev
        number = next(int(fd) for fd in os.listdir(f"/proc/{mount.pid}/fd")
                      if os.stat(f"/proc/{mount.pid}/fd/{fd}").st_rdev == device)
        process = LIBC.syscall(PIDFD_OPEN, mount.pid, 0)
        self.fd = LIBC.syscall(PIDFD_GETFD, process, number, 0)
        expect(self.fd >= 0, f"pidfd_getfd: {os.strerror(ctypes.get_errno())}")
        os.close(process)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        harness.cut(self.device)
        os.close(self.fd)


def outcome(path, seconds):
    """What a read of a file comes to, in a child that may be left behind: the name of its errno, "bytes", or None when it
    did not end."""
    out, into = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(out)
        try:
            fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
            os.preadv(fd, [mmap.mmap(-1, 1 << 20)], 0)
            word = "bytes"
        except OSError as e:
            word = errno.errorcode[e.errno]
        os.write(into, word.encode())
        os._exit(0)
    os.close(into)
    ready = select.select([out], [], [], seconds)[0]
    word = os.read(out, 100).decode() if ready else None
    os.close(out)
    if word:
        os.waitpid(child, 0)
    else:
        os.kill(child, signal.SIGKILL)
    return word


CUT_OFF = ("ENOTCONN", "ECONNABORTED", "EIO")


def kill(mount):
    os.kill(mount.pid, signal.SIGKILL)
    until(lambda: not mount.running(), "the death")


def case_a_killed_daemon_leaves_no_hanging_mount():
    # D10: a crash leaves a dead mount, not one that hangs
    folder, name, data = small()
    for foreground in (False, True):
        mount = Mount(folder, WORK / "mnt", foreground=foreground)
        expect_equal((mount.at / name).read_bytes(), data, "read")
        guard = until(lambda: guard_of(mount), "the guard")
        with HeldConnection(mount):
            harness.drop_caches(mount.at / name)
            kill(mount)
            word = outcome(mount.at / name, 5)
            expect(word in CUT_OFF, f"a read after the death: {word or 'hangs'}")
            until(lambda: not alive(guard), "the guard's end")
            with Mount(folder, mount.at) as again:
                expect_equal((again.at / name).read_bytes(), data, "read from the next mount")


def case_readers_that_wait_are_let_go():
    # killed with requests unanswered
    folder, name, _ = small()
    mount = Mount(folder, WORK / "mnt")
    with HeldConnection(mount):
        mount.freeze()
        reader = subprocess.Popen(["cat", mount.at / name], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        time.sleep(0.3)
        expect(reader.poll() is None, "a frozen daemon answered")
        kill(mount)
        try:
            reader.wait(5)
        except subprocess.TimeoutExpired:
            raise harness.Failure("the reader hangs") from None
        expect(reader.returncode != 0, "the reader was answered")
    harness.unmount_all()


def case_unmount_cuts_a_connection_that_nobody_guards():
    folder, name, _ = small()
    mount = Mount(folder, WORK / "mnt")
    held = os.open(mount.at / name, os.O_RDONLY)
    with HeldConnection(mount):
        os.kill(until(lambda: guard_of(mount), "the guard"), signal.SIGKILL)
        until(lambda: mount.lines("guard was ended"), "a line about the guard's end")
        expect_equal(subprocess.run(["ps", "--ppid", str(mount.pid), "-o", "stat="], capture_output=True, text=True,
                                    check=False).stdout, "", "children")
        done = subprocess.run([MOUNT, "--unmount", str(mount.at)], capture_output=True, text=True, timeout=60, check=False)
        expect_equal(done.returncode, 75, f"--unmount of a live mount in use: {done.stderr}")
        expect((mount.at / name).exists(), "the live mount answers no more")
        kill(mount)
        expect_equal(outcome(mount.at / name, 1), None, "a read with no guard")  # or the case tests nothing
        if not harness.sanitized():  # ten seconds that prove nothing more there
            begun = subprocess.run([MOUNT, str(folder), str(mount.at)], capture_output=True, text=True, timeout=60, check=False)
            expect_equal(begun.returncode, 75, f"a start over it: {begun.stderr}")
            expect("does not answer" in begun.stderr, f"message {begun.stderr!r}")
        try:
            done = subprocess.run([MOUNT, "--unmount", str(mount.at) + "/"], capture_output=True, text=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            raise harness.Failure("--unmount hangs") from None
        expect_equal(done.returncode, 0, f"--unmount: {done.stderr}")
        expect(not mount.mounted(), "still mounted")
        try:
            os.pread(held, 1 << 20, 1 << 20)
            raise harness.Failure("the connection still lives")
        except OSError as e:
            expect(errno.errorcode[e.errno] in CUT_OFF, f"errno {e}")
        os.close(held)


def case_the_guard_holds_little_and_ends_with_the_daemon():
    folder, name, data = small()
    ends = {"unmounted": lambda m: subprocess.run([MOUNT, "--unmount", str(m.at)], check=True),
            "by fusermount3": lambda m: subprocess.run(["fusermount3", "-u", str(m.at)], check=True),
            "terminated": lambda m: os.kill(m.pid, signal.SIGTERM),
            "aborted": lambda m: os.kill(m.pid, signal.SIGABRT),
            "killed": lambda m: os.kill(m.pid, signal.SIGKILL)}
    for how, end in ends.items():
        mount = Mount(folder, WORK / "mnt")
        expect_equal((mount.at / name).read_bytes(), data, "read")
        guard = until(lambda: guard_of(mount), "the guard")
        files = [os.readlink(f"/proc/{guard}/fd/{fd}") for fd in os.listdir(f"/proc/{guard}/fd")]
        expect(len(files) == 2 and any(f.endswith("/abort") for f in files), f"the guard holds {files}")
        status = pathlib.Path(f"/proc/{guard}/status").read_text()
        own = [int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")]
        expect(harness.sanitized() or own[0] < 8 << 10, f"{own[0]} KiB of its own")
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGABRT, signal.SIGUSR1,
                       signal.SIGRTMIN, signal.SIGRTMIN + 1):
            os.kill(guard, number)
        time.sleep(0.2)
        expect(alive(guard) and (mount.at / name).exists(), "a signal that means the daemon ended the guard, or the mount")
        end(mount)
        until(lambda: not alive(guard), f"the end of the guard of a daemon that was {how}", 5)
        until(lambda: not mount.running(), "the daemon's end")
        expect(how in ("aborted", "killed") or not mount.mounted(), "still mounted")
        harness.unmount_all()


def case_an_old_guard_cuts_nobody_elses_connection():
    # the kernel gives a number to the next mount when it is free; a descriptor of the old one means nothing then
    folder, name, data = small()
    first = Mount(folder, WORK / "mnt")
    device = first.device()
    with harness.connections() as listed:
        if not listed or os.getuid() != 0:
            first.stop()
            return
        old = os.open(listed / device.split(":")[1] / "abort", os.O_WRONLY)
        first.stop()
        with Mount(folder, WORK / "mnt") as second:
            expect_equal(second.device(), device, "the number")
            os.write(old, b"1")
            os.close(old)
            expect_equal((second.at / name).read_bytes(), data, "read after a write to the old descriptor")
            expect(second.running(), "the daemon ended")


def case_an_ordinary_users_mount():
    if os.getuid() != 0:
        return  # the other cases are an ordinary user's then
    usual = pathlib.Path("/sys/fs/fuse/connections")
    ours = not os.path.ismount(usual) and subprocess.run(["mount", "-t", "fusectl", "none", usual], capture_output=True,
                                                         check=False).returncode == 0
    folder, name, _ = small()
    program = WORK / "brevis-mount"
    shutil.copy(MOUNT, program)  # the build folder may be closed to others
    at = WORK / "mnt-user"
    at.mkdir()
    os.chown(at, NOBODY, NOBODY)
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    mode = os.stat("/dev/fuse").st_mode & 0o7777
    os.chmod("/dev/fuse", 0o666)
    try:
        for guarded in (True, False)[:1 if harness.sanitized() else 2]:
            mount = Mount(folder, at, program=str(program), **user)
            with HeldConnection(mount):
                guard = until(lambda: guard_of(mount), "the guard")
                if not guarded:
                    os.kill(guard, signal.SIGKILL)
                    until(lambda: not alive(guard), "the guard's end")
                kill(mount)
                if guarded:
                    until(lambda: not alive(guard), "the guard's end")
                    done = subprocess.run(["cat", at / name], capture_output=True, check=False, timeout=10, **user)
                    expect(done.returncode != 0, "a dead mount gave bytes")
                done = subprocess.run([program, "--unmount", str(at)], capture_output=True, text=True, timeout=60, check=False, **user)
                expect_equal(done.returncode, 0, f"--unmount by the user: {done.stderr}")
                expect(not mount.mounted(), "still mounted")
    finally:
        os.chmod("/dev/fuse", mode)
        if ours:
            subprocess.run(["umount", usual], check=False)


if __name__ == "__main__":
    harness.run(globals())
