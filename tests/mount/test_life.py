# SPDX-License-Identifier: Apache-2.0
"""The daemon's life: start, readiness, signals, crashes, unmounting, in-place mounts, other users."""
import concurrent.futures
import errno
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

import harness
from harness import MOUNT, NOBODY, WORK, Mount, expect, expect_equal, expect_errno, until


def call(*arguments, **how):
    return subprocess.run([MOUNT, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False, **how)


def small(name):
    return harness.packed_model(name, mib=2)


def case_unmounted_by_somebody():
    # D12: after an unmount by anybody the daemon is gone within 5 s, with exit code 0 and no child left
    folder, name, data = small("life")
    for how in (["fusermount3", "-u"], ["umount"], [MOUNT, "--unmount"]):
        mount = Mount(folder, WORK / "mnt", foreground=True)
        expect_equal((mount.at / name).read_bytes(), data, "read")
        subprocess.run([*how, str(mount.at)], check=True, timeout=20)
        expect_equal(mount.process.wait(5), 0, f"exit code after {how}")
        expect(not mount.mounted(), "still mounted")


def case_started_with_its_streams_closed():
    # SOURCE and the pipe to the waiting parent must not get the numbers of streams that the daemon then replaces
    folder, name, data = small("life")
    for closed in ("<&- >&- 2>&-", "<&-", "2>&-"):
        at = WORK / "mnt"
        at.mkdir(exist_ok=True)
        started = subprocess.run(["sh", "-c", f'exec "$0" "$@" {closed}', MOUNT, folder, at], timeout=20, check=False)
        expect_equal(started.returncode, 0, f"start with {closed}")
        expect_equal((at / name).read_bytes(), data, "read")
        expect_equal(call("--unmount", at).returncode, 0, "unmount")


def case_source_and_type_in_the_mount_table():
    # S03: the table of mounts names brevis and the source, not the device
    folder, _, _ = small("life")
    with Mount(folder, WORK / "mnt") as mount:
        fields = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
        entry = [f for f in fields if f[1] == str(mount.at)]
        expect_equal([f[0] for f in entry], [f"brevis:{folder}"], "source")
        expect_equal(entry[0][2], "fuse.brevis", "type")
        options = entry[0][3].split(",")
        expect("ro" in options and "default_permissions" in options, f"options {options}")
    odd = WORK / "odd, name"  # a comma and a blank must survive
    shutil.copytree(folder, odd)
    with Mount(odd, WORK / "mnt, too") as mount:
        expect("brevis:" + str(odd).replace(" ", "\\040") in pathlib.Path("/proc/mounts").read_text(), "the odd source")
        expect((mount.at / small("life")[1]).exists(), "the file")


def case_told_ready_after_the_first_answer():
    # S08: the service manager hears READY only when the mount answers, then WATCHDOG, and STOPPING at the end
    folder, name, _ = small("life")
    path = str(WORK / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.settimeout(10)
        mount = Mount(folder, WORK / "mnt", foreground=True, env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "200000"})
        first = manager.recv(4096).decode()
        expect(first.startswith("READY=1"), f"the first message is {first!r}")
        expect((mount.at / name).exists(), "the mount does not answer though it said READY")
        expect(f"MAINPID={mount.pid}" in first, "MAINPID")
        expect_equal(manager.recv(4096).decode(), "WATCHDOG=1", "the next message")
        mount.process.terminate()
        last = manager.recv(4096).decode()
        while last == "WATCHDOG=1":
            last = manager.recv(4096).decode()
        expect_equal(last, "STOPPING=1", "the last message")
        expect_equal(mount.process.wait(10), 0, "exit code")


def case_sigterm_with_nothing_open():
    folder, _, _ = small("life")
    mount = Mount(folder, WORK / "mnt", foreground=True)
    began = time.monotonic()
    mount.process.terminate()
    expect_equal(mount.process.wait(10), 0, "exit code")
    expect(time.monotonic() - began < 5, "an idle mount took the grace time")
    expect(not mount.mounted(), "still mounted")


def case_sigterm_with_an_open_file():
    # S05: SIGTERM always ends the mount: it leaves the tree at once; what is open is served until it is closed, or the
    # grace time is over
    folder, name, data = small("life")
    mount = Mount(folder, WORK / "mnt", ["--grace", "30"], foreground=True)
    fd = os.open(mount.at / name, os.O_RDONLY | os.O_DIRECT)
    mount.process.terminate()
    until(lambda: not mount.mounted(), "the detaching")
    with open(fd, "rb", buffering=0, closefd=False) as file:
        area = memoryview(__import__("mmap").mmap(-1, 1 << 20))
        got = file.readinto(area)
        expect_equal(bytes(area[:got]), data[:got], "what is open goes on")
    expect(mount.process.poll() is None, "ended with a file open")
    os.close(fd)
    expect_equal(mount.process.wait(10), 0, "exit code")

    mount = Mount(folder, WORK / "mnt", ["--grace", "1"], foreground=True)
    fd = os.open(mount.at / name, os.O_RDONLY)
    began = time.monotonic()
    mount.process.terminate()
    expect_equal(mount.process.wait(10), 0, "exit code after the grace time")
    expect(time.monotonic() - began > 0.8, "the grace time was not given")
    os.close(fd)


def gone(path):
    try:
        os.listdir(path)
    except OSError as e:
        return e.errno == errno.ENOTCONN
    return False


def case_killed_and_started_again():
    # D10: a crash leaves a stale mount, and a line when the signal can be caught; the next start clears it
    folder, name, data = small("life")
    for number in (signal.SIGKILL, signal.SIGSEGV):
        mount = Mount(folder, WORK / "mnt")
        expect_equal((mount.at / name).read_bytes(), data, "read")
        os.kill(mount.pid, number)
        until(lambda: not mount.running(), "the death")
        until(lambda: gone(mount.at), "the stale mount")
        if number == signal.SIGSEGV:
            expect(mount.lines("died of SIGSEGV"), "no line tells of the death")
        with Mount(folder, WORK / "mnt") as again:
            expect_equal((again.at / name).read_bytes(), data, "read again")


def case_a_dead_mount_is_taken_off():
    # what the unit runs after a crash, with a file still open in the dead mount; and again, with nothing to do
    folder, name, _ = small("life")
    mount = Mount(folder, WORK / "mnt")
    held = os.open(mount.at / name, os.O_RDONLY)
    done = call("--unmount", mount.at)
    expect_equal(done.returncode, 75, f"--unmount of a live mount in use: {done.stderr}")
    os.kill(mount.pid, signal.SIGKILL)
    until(lambda: not mount.running(), "the death")
    done = call("--quiet", "--unmount", mount.at)
    expect_equal((done.returncode, done.stderr), (0, ""), "--unmount of the dead mount")
    expect(not mount.mounted(), "still mounted")
    os.close(held)
    done = call("--quiet", "--unmount", mount.at)
    expect_equal((done.returncode, done.stderr), (66, ""), "--unmount with nothing there")


def case_killed_and_started_again_in_place():
    tree = WORK / "inplace-killed"
    folder, name, data = small("life")
    shutil.copytree(folder, tree)
    mount = Mount(tree)
    os.kill(mount.pid, signal.SIGKILL)
    until(lambda: not mount.running(), "the death")
    with Mount(tree) as again:
        expect_equal((again.at / name).read_bytes(), data, "read again")
    expect_equal(os.listdir(tree), [name + ".brv"], "the tree afterwards")


def case_a_live_mount_is_not_stacked():
    folder, name, _ = small("life")
    with Mount(folder, WORK / "mnt") as mount:
        done = call(folder, mount.at)
        expect_equal(done.returncode, 75, "exit code onto a live mount")
        expect("served already" in done.stderr, f"message {done.stderr!r}")
        expect((mount.at / name).exists(), "the first mount still answers")
        done = call(mount.at)  # in place over a mount
        expect_equal(done.returncode, 75, "exit code in place onto a live mount")


def case_wrong_places():
    folder, _, _ = small("life")
    (folder / "inner").mkdir(exist_ok=True)
    plain = WORK / "a-file"
    plain.write_text("x")
    for arguments, code, word in (
            ([folder, folder / "inner"], 2, "lies inside SOURCE"),
            ([WORK / "missing"], 66, "missing"),
            ([folder, WORK / "missing"], 66, "missing"),
            ([plain], 2, "not a directory"),
            ([folder, plain], None, "a-file"),
            (["--log-file", folder / "log", folder], 2, "under the mount point"),
            (["--log-file", "/nonexistent/log", folder, WORK / "mnt"], 66, "/nonexistent/log"),
            (["--unmount", folder], 66, "not a mount of brevis-mount"),
            (["--unmount"], 2, "MOUNTPOINT")):
        done = call(*arguments)
        expect(done.returncode not in (0, 70) and (code is None or done.returncode == code),
               f"{arguments}: exit {done.returncode}, not {code}: {done.stderr}")
        expect(word in done.stderr, f"{arguments}: {done.stderr!r} does not say {word!r}")
    (folder / "inner").rmdir()


def case_in_place():
    tree = WORK / "inplace" / "models"
    folder, name, data = small("life")
    shutil.copytree(folder, tree / "m")
    (tree / "m/config.json").write_text('{"a":1}')
    (tree / "link").symlink_to("m/config.json")
    with Mount(tree) as mount:
        expect_equal((tree / "m" / name).read_bytes(), data, "the file")
        expect_equal((tree / "m/config.json").read_text(), '{"a":1}', "pass-through")
        expect_equal((tree / "link").read_text(), '{"a":1}', "through a link")
        expect_equal(os.readlink(tree / "link"), "m/config.json", "the link")
        expect_equal(sorted(os.listdir(tree)), ["link", "m"], "the listing hides .brevis")
        expect_equal(sorted(os.listdir(tree / "m")), ["config.json", name], "the archives are not listed")
        raw = tree / ".brevis/m" / (name + ".brv")
        expect_equal(raw.read_bytes(), (folder / (name + ".brv")).read_bytes(), "the raw archive")
        expect_errno(errno.EROFS, "writing there", lambda: os.open(raw, os.O_RDWR))
        expect(mount.mounted(), "mounted")
    expect_equal(sorted(os.listdir(tree / "m")), ["config.json", name + ".brv"], "the tree afterwards")


def case_archives_are_shown_on_request():
    folder, name, data = small("life")
    with Mount(folder, WORK / "mnt", ["--show-archives"]) as mount:
        expect_equal(sorted(os.listdir(mount.at)), [name, name + ".brv"], "the listing")
        expect_equal((mount.at / (name + ".brv")).read_bytes(), (folder / (name + ".brv")).read_bytes(), "the archive")
        expect_equal((mount.at / name).read_bytes(), data, "the file")


def case_the_tree_changes():
    # S09: an archive added while mounted is visible after SIGHUP without a restart; replaced, it is a new file, and who
    # holds the old one keeps its bytes
    tree = WORK / "changing"
    folder, name, data = small("life")
    shutil.copytree(folder, tree)
    other_folder, _, other = harness.packed_model("life2", mib=2, seed=77)
    with Mount(tree, WORK / "mnt") as mount:
        expect_equal(sorted(os.listdir(mount.at)), [name], "before")
        shutil.copyfile(other_folder / (name + ".brv"), tree / "new.safetensors.brv")
        os.kill(mount.pid, signal.SIGHUP)
        until(lambda: "new.safetensors" in os.listdir(mount.at), "the new archive")
        expect_equal((mount.at / "new.safetensors").read_bytes(), other, "the new file")
        expect(mount.lines("looking again"), "no line about the rescan")

        held = os.open(mount.at / name, os.O_RDONLY)
        number = os.fstat(held).st_ino
        shutil.copyfile(other_folder / (name + ".brv"), tree / "tmp")
        os.rename(tree / "tmp", tree / (name + ".brv"))
        until(lambda: (mount.at / name).stat().st_ino != number, "the new inode")
        expect_equal((mount.at / name).read_bytes(), other, "the replaced file")
        expect_equal(os.pread(held, len(data), 0), data, "the old file, still open")
        os.close(held)

        (tree / "new.safetensors.brv").unlink()
        until(lambda: not (mount.at / "new.safetensors").exists(), "the removal")
        (tree / "plain.txt").write_text("one")
        until(lambda: (mount.at / "plain.txt").exists(), "a plain file")
        expect_equal((mount.at / "plain.txt").read_text(), "one", "a plain file")
        (tree / "plain.txt").write_text("two, longer")
        until(lambda: (mount.at / "plain.txt").read_text() == "two, longer", "a plain file that changes")


def case_modes_hold_for_other_users():
    tree = WORK / "modes"
    folder, name, data = small("life")
    tree.mkdir()
    for mode in (0o600, 0o644):
        target = tree / f"{mode:o}.safetensors.brv"
        shutil.copyfile(folder / (name + ".brv"), target)
        target.chmod(mode)
    (tree / "closed").mkdir(mode=0o700)

    def as_nobody(path, *command):
        done = subprocess.run([*(command or ("cat",)), str(path)], capture_output=True, check=False, user=NOBODY, group=NOBODY, extra_groups=[])
        return done.returncode, done.stdout

    if os.getuid() != 0:
        return
    with Mount(tree, WORK / "mnt", ["--allow-other"]) as mount:
        expect_equal(as_nobody(mount.at / "644.safetensors"), (0, data), "a readable file")
        expect(as_nobody(mount.at / "600.safetensors")[0] != 0, "nobody read a file of mode 0600")
        expect(as_nobody(mount.at / "closed", "ls")[0] != 0, "nobody listed a closed directory")
        expect_equal((mount.at / "600.safetensors").read_bytes(), data, "its owner")
    with Mount(tree, WORK / "mnt") as mount:
        expect(as_nobody(mount.at / "644.safetensors")[0] != 0, "without --allow-other others are let in")


class OpenDevice:
    """/dev/fuse for everybody, while it lasts."""

    def __enter__(self):
        self.mode = os.stat("/dev/fuse").st_mode & 0o7777
        os.chmod("/dev/fuse", 0o666)

    def __exit__(self, *_):
        os.chmod("/dev/fuse", self.mode)


def case_ordinary_user():
    # S01: killed in an ordinary user's hands, without allow_other, the next start clears the stale mount by itself
    if os.getuid() != 0:
        return  # the other cases are an ordinary user's then
    folder, name, data = small("life")
    program = WORK / "brevis-mount"
    shutil.copy(MOUNT, program)  # the build folder may be closed to others
    at = WORK / "mnt-user"
    at.mkdir()
    os.chown(at, NOBODY, NOBODY)
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "program": str(program)}
    with OpenDevice():
        mount = Mount(folder, at, **user)
        read = subprocess.run(["cat", at / name], capture_output=True, check=False, user=NOBODY, group=NOBODY, extra_groups=[])
        expect_equal(read.stdout, data, "read by its user")
        expect_errno(errno.EACCES, "root in a user's mount", lambda: os.listdir(at))
        os.kill(mount.pid, signal.SIGKILL)
        until(lambda: not mount.running(), "the death")
        with Mount(folder, at, **user) as again:
            expect("cleared a stale mount" in again.errors, f"no word of the stale mount: {again.errors!r}")
            read = subprocess.run(["cat", at / name], capture_output=True, check=False, user=NOBODY, group=NOBODY, extra_groups=[])
            expect_equal(read.stdout, data, "read after the restart")
        done = subprocess.run([program, "--allow-other", str(folder), str(at)], capture_output=True, text=True, check=False,
                              user=NOBODY, group=NOBODY, extra_groups=[])
        if "user_allow_other" not in [line.strip() for line in pathlib.Path("/etc/fuse.conf").read_text().splitlines()]:
            expect_equal(done.returncode, 77, "exit code of --allow-other")
            expect("/etc/fuse.conf" in done.stderr, f"message {done.stderr!r}")
        mount = Mount(folder, at, **user)  # and by its own hand
        done = subprocess.run([program, "--unmount", str(at)], capture_output=True, text=True, check=False, user=NOBODY,
                              group=NOBODY, extra_groups=[])
        expect_equal(done.returncode, 0, f"--unmount by the user: {done.stderr}")
        until(lambda: not mount.running(), "the end")


def case_find_in_parallel():
    # S12: many walks of a tree at once, while names come and go
    tree = WORK / "wide"
    folder, name, _ = small("life")
    for i in range(20):
        (tree / f"d{i}").mkdir(parents=True)
        for k in range(10):
            os.symlink("x", tree / f"d{i}/link{k}")
            (tree / f"d{i}/file{k}").write_text("x")
        os.link(folder / (name + ".brv"), tree / f"d{i}" / (name + ".brv"))
    want = sorted(p.decode().removesuffix(".brv") for p in subprocess.run(["find", ".", "-mindepth", "1", "-print0"], cwd=tree,
                                                                           capture_output=True, check=True).stdout.split(b"\0") if p)
    with Mount(tree, WORK / "mnt") as mount:
        def walk(_):
            return subprocess.run(["find", ".", "-mindepth", "1", "-print0", "-newermt", "1990-01-01"], cwd=mount.at, capture_output=True, check=False)

        with concurrent.futures.ThreadPoolExecutor(50) as pool:
            for done in pool.map(walk, range(50)):
                got = sorted(p.decode() for p in done.stdout.split(b"\0") if p)
                expect_equal(got, want, f"find ({done.stderr[:200]})")
        subprocess.run(["sh", "-c", "echo 2 > /proc/sys/vm/drop_caches"], check=False, capture_output=True)
        expect_equal(len(list(mount.at.rglob("*"))), len(want), "after the kernel forgot every name")


if __name__ == "__main__":
    harness.run(globals())
