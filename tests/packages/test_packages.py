#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Debian packages on a fresh Debian 12: installed, used, removed, and nothing left behind.

usage: tests/packages/test_packages.py DEBS [BASE]

DEBS is the folder of packaging/build-deb.sh. BASE is a tar of a fresh system
(made with debootstrap and kept there when it is missing). Needs root, network
to a Debian mirror, and /dev/fuse. Units are started under a systemd booted in
a container (systemd-nspawn); where none boots this part is said to be missing.
"""
import os
import pathlib
import shutil
import stat
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "mount"))
PACKAGES = ["brevis", "libbrevis0", "libbrevis-dev", "python3-brevis"]
# What running and installing anything changes.
NOISE = ("/var/lib/dpkg/", "/var/lib/apt/", "/var/cache/", "/var/log/", "/root/", "/tmp/", "/proc/", "/sys/", "/dev/", "/run/",
         "/var/lib/systemd/", "/etc/ld.so.cache", "/var/tmp/", "/etc/machine-id", "/var/lib/dbus", "/etc/mtab", "/etc/.pwd.lock",
         "/etc/hostname", "/etc/resolv.conf", "/etc/systemd/system/", "/etc/fuse.conf", "/usr/lib/python3", "/usr/share/python3",
         "/etc/fstab", "/var/lib/private", "/etc/locale.conf", "/etc/.updated", "/var/.updated")


def run(*command, **how):
    done = subprocess.run([str(c) for c in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, **how)
    assert done.returncode == 0, f"{' '.join(map(str, command))} gave {done.returncode}:\n{done.stdout[-6000:]}"
    return done.stdout


class Root:
    def __init__(self, base):
        self.at = pathlib.Path(tempfile.mkdtemp(prefix="brevis-packages."))
        run("tar", "-C", self.at, "-xf", base)
        self.at.chmod(0o755)  # mkdtemp's, kept by the tar, would shut every user but root out of the system
        self.mounted = []
        shutil.copy("/etc/resolv.conf", self.at / "etc/resolv.conf")

    def bind(self):
        for what, how in (("proc", ["-t", "proc", "proc"]), ("dev", ["--bind", "/dev"])):
            run("mount", *how, self.at / what)
            self.mounted.append(self.at / what)

    def release(self):
        while self.mounted:
            subprocess.run(["umount", "-l", self.mounted.pop()], check=False)

    def sh(self, script):
        return run("chroot", self.at, "/bin/bash", "-eu", "-o", "pipefail", "-c", script,
                   env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"})

    def files(self):
        out = set()
        for folder, folders, names in os.walk(self.at):
            inside = folder[len(str(self.at)):] or "/"
            out |= {f"{inside.rstrip('/')}/{name}" for name in folders + names}
        return {path for path in out if not f"{path}/".startswith(NOISE) and not path.startswith(NOISE)}

    def units(self):
        """Links that enabling units makes."""
        return {str(p.relative_to(self.at)) for p in (self.at / "etc/systemd").rglob("*brevis*")}


def base_system(path):
    if not path.exists():
        with tempfile.TemporaryDirectory(prefix="brevis-base.") as folder:
            run("debootstrap", "--variant=minbase", "--include=systemd,systemd-sysv,dbus,ca-certificates,mount", "bookworm", folder,
                os.environ.get("BREVIS_DEBIAN_MIRROR", "http://deb.debian.org/debian"))
            run("tar", "-C", folder, "-cf", path, ".")
    return path


def make_model(root, debs):
    import harness
    plain = root.at / "root/plain"
    harness.make_model(plain / "model.safetensors", mib=4)
    (plain / "config.json").write_text("{}\n")
    target = root.at / "root/debs"
    target.mkdir()
    for deb in debs:
        shutil.copy(deb, target)


# What a person does without a service manager.
CHROOT = r"""
brevis-pack -q --progress never /root/plain -o /root/model
brevis fsck /root/model
mkdir /root/mnt
brevis-mount /root/model /root/mnt
cmp /root/plain/model.safetensors /root/mnt/model.safetensors
brevis-mount --unmount /root/mnt
mount -t fuse.brevis -o ro,nodev /root/model /root/mnt
cmp /root/plain/model.safetensors /root/mnt/model.safetensors
umount /root/mnt
rmdir /root/mnt
python3 -c '
import brevis
a = brevis.open("/root/model/model.safetensors.brv")
assert a.read() == open("/root/plain/model.safetensors", "rb").read() and len(a.keys()) > 2
assert brevis.check("/root/model/model.safetensors.brv") is not None'
for program in brevis brevis-pack brevis-mount; do
  bash -n /usr/share/bash-completion/completions/$program
  test -s /usr/share/zsh/vendor-completions/_$program
  $program --version | grep -q '[0-9]'
done
for page in man1/brevis.1 man1/brevis-pack.1 man5/brevis-archive.5 man8/brevis-mount.8 man8/mount.fuse.brevis.8; do test -s /usr/share/man/$page.gz; done
systemd-analyze --man=no verify /lib/systemd/system/brevis-*@.* 2>&1 | { ! grep brevis-; }
systemd-tmpfiles --create brevis.conf; test -d /run/brevis; rmdir /run/brevis
test ! -e /etc/systemd/system/multi-user.target.wants/brevis-mount@models.service
"""


def boot(root):
    """Runs live.sh as a unit of a booted systemd; what it said, or None where no container boots."""
    if not shutil.which("systemd-nspawn"):
        return None
    shutil.copy(HERE / "live.sh", root.at / "root/live.sh")
    unit = root.at / "etc/systemd/system/live.service"
    unit.write_text("[Unit]\nAfter=basic.target\n[Service]\nType=oneshot\nExecStart=/bin/bash /root/live.sh\n"
                    "StandardOutput=file:/root/live.log\nStandardError=file:/root/live.log\nTimeoutStartSec=300\n"
                    "ExecStopPost=systemctl --no-block poweroff\n")
    wants = root.at / "etc/systemd/system/multi-user.target.wants/live.service"
    wants.symlink_to("/etc/systemd/system/live.service")
    fuse = root.at / "root/fuse"  # open to everybody, as udev makes it; the machine's own may not be
    os.mknod(fuse, stat.S_IFCHR, os.stat("/dev/fuse").st_rdev)
    fuse.chmod(0o666)
    try:
        done = subprocess.run(
            ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "-D", root.at, f"--bind={fuse}:/dev/fuse",
             "--property=DeviceAllow=/dev/fuse rw", "--capability=CAP_SYS_ADMIN", "--console=pipe", "-b"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=400, check=False)
    except subprocess.TimeoutExpired as e:
        done = e
    finally:
        unit.unlink()
        wants.unlink()
    log = root.at / "root/live.log"
    if not log.exists():
        print("systemd-nspawn:", (done.stdout or "")[-600:], (done.stderr or "")[-600:])
        return None
    return log.read_text()


def main(debs, base="/var/tmp/brevis-base-bookworm.tar"):
    if os.getuid() != 0 or not shutil.which("debootstrap"):
        print("needs root and debootstrap")
        return 1 if os.environ.get("CI") == "true" else 77
    found = sorted(pathlib.Path(debs).glob("*.deb"))
    if sorted(p.name.split("_")[0] for p in found) != sorted(PACKAGES):
        print(f"{debs}: {[p.name for p in found]} where {PACKAGES} should be: packaging/build-deb.sh {debs} makes them")
        return 2
    root = Root(base_system(pathlib.Path(base)))
    try:
        root.bind()
        root.sh("apt-get update -qq")
        before = root.files()
        make_model(root, found)
        root.sh("apt-get install -y --no-install-recommends /root/debs/*.deb")
        root.sh(CHROOT)
        root.release()
        said = boot(root)
        if said is not None and not said.rstrip().endswith("live: ok"):
            print(said[-4000:])
            return 1
        root.bind()
        if said is None:
            root.sh(f"apt-get purge -y {' '.join(PACKAGES)}")  # live.sh does it while units are running
        root.sh("apt-get autoremove --purge -y")
        left = sorted(root.files() - before)
        gone = sorted(before - root.files())
        assert not left and not gone, f"left behind: {left[:20]}; missing: {gone[:20]}"
        assert not root.units(), root.units()
        assert not (root.at / "var/cache/brevis").exists()
        assert "brevis" not in root.sh("dpkg -l")
    finally:
        root.release()
        run("rm", "-rf", "--one-file-system", root.at)
    print("installed, used and removed; nothing left behind;",
          "units run under systemd" if said else "NOT RUN: units under a booted systemd (no systemd-nspawn container boots here)")
    return 0


if __name__ == "__main__":
    if "--help" in sys.argv or len(sys.argv) not in (2, 3):
        sys.exit(print(__doc__.strip()) if "--help" in sys.argv else 2)
    sys.exit(main(*sys.argv[1:]))
