# SPDX-License-Identifier: Apache-2.0
"""mount.fuse.brevis takes what mount(8) and systemd pass, and gives the exit codes that mount(8) knows.
test_helper.py HELPER"""
import os
import subprocess
import sys

import harness
from harness import MOUNT, WORK, expect, expect_equal

HELPER = sys.argv.pop(1)


def helper(*arguments, **more):
    environment = {**os.environ, **harness.sanitizer_environment(), "PATH": f"{os.path.dirname(MOUNT)}:{os.environ['PATH']}", **more}
    done = subprocess.run([HELPER, *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False, env=environment)
    return done.returncode, done.stderr


def mounts_at(place):
    with open("/proc/mounts", encoding="utf-8") as table:
        return [line.split() for line in table if line.split()[1] == str(place)]


def served(source, place, name, data, *arguments, **more):
    place.mkdir(exist_ok=True)
    code, errors = helper(source, place, *arguments, **more)
    expect_equal((code, len(mounts_at(place))), (0, 1), errors)
    expect_equal((place / name).read_bytes(), data, name)
    line = mounts_at(place)[0]
    subprocess.run([MOUNT, "--unmount", place], check=True, timeout=60)
    return line


# S10: fstab through a helper, not through mount units of a user
def case_as_mount_calls_it():
    folder, name, data = harness.packed_model("helper", mib=2)
    place = WORK / "mnt"
    line = served(folder, place, name, data, "-o", "rw,dev,suid,noatime,x-systemd.automount,comment=models,nofail,_netdev")
    expect_equal(line[2], "fuse.brevis", "type")
    expect("ro" in line[3].split(","), line)
    served(folder, place, name, data)
    served(f"brevis:{folder}", place, name, data, "-n", "-o", "ro", "-t", "fuse.brevis")
    served(folder, place, name, data, "-sv", "-o", "noexec", "-o", "memory=64MiB,jobs=2")
    expect("noexec" in served(folder, place, name, data, "-o", "noexec")[3], "noexec is not passed on")
    # options of the environment are a person's, not the system's
    served(folder, place, name, data, BREVIS_SHOW_ARCHIVES="nonsense")


def case_over_itself():
    folder, name, data = harness.packed_model("in-place", mib=2)
    served(folder, folder, name, data)
    served(str(folder) + "/", folder, name, data, "-o", "ro")


def case_refused():
    folder, _, _ = harness.packed_model("helper", mib=2)
    place = WORK / "refused"
    place.mkdir()
    for arguments, code in (((), 1), ((folder,), 1), ((folder, place, "more"), 1), ((folder, place, "-x"), 1), ((folder, place, "-o"), 1),
                            ((folder, place, "-o", "nonsense"), 32), ((WORK / "none", place), 32), ((folder, WORK / "none"), 32),
                            ((folder, place, "-f"), 0), ((folder, place, "-fv", "-o", "ro"), 0)):
        got, errors = helper(*arguments)
        expect_equal(got, code, f"{arguments}: {errors}")
        expect(code == 0 or "brevis" in errors, f"{arguments} says nothing: {errors!r}")
        expect_equal(mounts_at(place), [], "mounts")


harness.run(globals())
