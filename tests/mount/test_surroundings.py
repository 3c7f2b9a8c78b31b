# SPDX-License-Identifier: Apache-2.0
"""What a mount needs of the system around it, and what it leaves alone."""
import os
import pathlib
import random
import shutil
import subprocess

import harness
from harness import MIB, MOUNT, PACK, TOOL, WORK, Mount, expect, expect_equal


def everything(root):
    return sorted((str(p), p.lstat().st_size, p.lstat().st_mtime_ns) for p in pathlib.Path(root).rglob("*"))


def case_nothing_is_written_but_where_it_was_said():
    # M17: reading a whole model writes nothing, neither beside the archives nor where programs keep their state
    tree, home = WORK / "untouched", WORK / "home"
    folder, name, data = harness.packed_model("big", mib=8)
    shutil.copytree(folder, tree)
    home.mkdir()
    before = everything(tree)
    places = {v: str(home) for v in ("HOME", "TMPDIR", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_RUNTIME_DIR")}
    with Mount(tree, WORK / "mnt", ["--memory", "4MiB"], env=places) as mount:
        for _ in range(2):
            harness.drop_caches(mount.at / name)
            expect_equal((mount.at / name).read_bytes(), data, "the file")
        written = []
        for fd in pathlib.Path(f"/proc/{mount.pid}/fd").iterdir():
            flags = int((fd.parent.parent / "fdinfo" / fd.name).read_text().split("flags:")[1].split()[0], 8)
            target = os.readlink(fd)
            if flags & os.O_ACCMODE != os.O_RDONLY and target.startswith("/") and not target.startswith("/dev/"):
                written.append(target)
        expect_equal(written, [str(mount.log)], "files open for writing")
    expect_equal([p for p in everything(home) if p[0] != str(home / "brevis")], [], "what is in the places of state")
    expect_equal(everything(tree), before, "the source")


def case_any_order_of_tensors_costs_the_same():
    # M05: tensors loaded in any order cost as much decoding as from front to back, and a page fault no more than a frame
    folder, name, data = harness.packed_model("order", mib=24)
    spans = [(at, min(at + 2 * MIB, len(data))) for at in range(0, len(data), 2 * MIB)]
    decoded = {}
    for order in ("file", "random"):
        source = random.Random(3)
        wanted = source.sample(spans, len(spans)) if order == "random" else spans
        with Mount(folder, WORK / "mnt") as mount:
            with open(mount.at / name, "rb", buffering=0) as file:
                for start, end in wanted:
                    expect_equal(os.pread(file.fileno(), end - start, start), data[start:end], f"{order} {start}")
            decoded[order] = mount.counters()["frames_decoded"]
    expect(decoded["random"] <= 1.3 * decoded["file"], f"frames decoded: {decoded}")


def in_a_namespace(script):
    """Runs a shell script as root with mounts of its own."""
    return subprocess.run(["unshare", "-m", "--propagation", "private", "sh", "-ec", script], capture_output=True, text=True, timeout=60, check=False,
                          env={**os.environ, **harness.sanitizer_environment()})


def can_unshare():
    return os.getuid() == 0 and in_a_namespace("true").returncode == 0


def case_the_control_file_system_is_not_needed():
    # S11: where /sys/fs/fuse/connections is missing a mount works as everywhere
    if not can_unshare():
        return
    folder, name, data = harness.packed_model("small", mib=2)
    (WORK / "mnt").mkdir(exist_ok=True)
    (WORK / "original").write_bytes(data)
    done = in_a_namespace(f"""
        mount -t tmpfs none /sys/fs/fuse
        '{MOUNT}' '{folder}' '{WORK}/mnt'
        cmp '{WORK}/mnt/{name}' '{WORK}/original'
        '{MOUNT}' --unmount '{WORK}/mnt'
    """)
    expect_equal((done.returncode, done.stderr), (0, ""), "a mount without it")


def case_the_kernel_module_is_not_needed_to_unpack():
    # S14: where there is no /dev/fuse, extract and cat give the files, and brevis-mount says what is missing
    if not can_unshare():
        return
    folder, name, data = harness.packed_model("small", mib=2)
    (WORK / "original").write_bytes(data)
    done = in_a_namespace(f"""
        mount -t tmpfs none /dev
        mknod /dev/null c 1 3
        '{TOOL}' extract '{folder}/{name}.brv' -o '{WORK}/extracted' -q
        cmp '{WORK}/extracted' '{WORK}/original'
        '{TOOL}' cat '{folder}/{name}.brv' > '{WORK}/catted'
        cmp '{WORK}/catted' '{WORK}/original'
        '{PACK}' '{WORK}/original' -o '{WORK}/again.brv' -q
        '{MOUNT}' '{folder}' '{WORK}/mnt' || exit $?
    """)
    expect_equal(done.returncode, 69, f"exit code of brevis-mount: {done.stderr}")
    expect("brevis extract" in done.stderr, f"no way out is named: {done.stderr!r}")


def commands_started_by(pid):
    lines = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(") ")[2].split()[1])
            if parent == pid:
                lines.append((stat.parent / "cmdline").read_text().replace("\0", " "))
        except OSError:  # it has ended meanwhile
            pass
    return "\n".join(lines)


def case_the_mount_is_not_ended_by_its_starter():
    # S13: nothing is asked of fusermount3's auto_unmount, which would force its own set of options on the mount
    folder, _, _ = harness.packed_model("small", mib=2)
    with Mount(folder, WORK / "mnt", ["-o", "noexec,nosuid,nodev,noatime"]) as mount:
        options = [line.split()[3] for line in pathlib.Path("/proc/mounts").read_text().splitlines() if line.split()[1] == str(mount.at)][-1]
        for word in ("ro", "noexec", "nosuid", "nodev", "noatime"):
            expect(word in options.split(","), f"{word} is not among {options}")
        children = commands_started_by(mount.pid)
        expect("fusermount" not in children, f"a helper waits for our end: {children}")


if __name__ == "__main__":
    harness.run(globals())
