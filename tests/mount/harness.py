# SPDX-License-Identifier: Apache-2.0
"""What the mounted tests share: seeded models, packing, mounts that end with the test, a runner.

A test script has functions case_*() and ends with harness.run(globals()). meson names the programs in the environment
(BREVIS_MOUNT, BREVIS_PACK, BREVIS_TOOL). Only Python's standard library is used here.
"""
import atexit
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

MOUNT, PACK, TOOL = (os.environ.get(n, "") for n in ("BREVIS_MOUNT", "BREVIS_PACK", "BREVIS_TOOL"))
IN_CI = os.environ.get("CI") == "true"
SKIPPED = 77
MIB = 1 << 20
NOBODY = 65534
WORK = pathlib.Path(tempfile.mkdtemp(prefix="brevis-mount-test."))
_started = []  # daemons that are ours to end


class Failure(Exception):
    pass


def expect(condition, message):
    if not condition:
        raise Failure(message)


def expect_equal(got, want, what):
    if got == want:
        return
    if isinstance(want, (bytes, bytearray)):
        at = next((i for i, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
        raise Failure(f"{what}: {len(got)} bytes for {len(want)}, first difference at {at}")
    raise Failure(f"{what}: {got!r}, not {want!r}")


def expect_errno(number, what, call):
    """Runs call(), which must fail with this errno."""
    try:
        call()
    except OSError as e:
        expect_equal(errno_name(e.errno), errno_name(number), what)
        return
    raise Failure(f"{what} succeeded")


def errno_name(number):
    import errno
    return errno.errorcode.get(number, str(number))


def until(condition, what, seconds=10.0):
    """Waits for condition() to be true; its value."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"{what}: not within {seconds} s")
        time.sleep(0.02)


def skip(reason):
    """Ends the script: skipped on a person's machine, failed where nothing may be missing."""
    print(("FAIL" if IN_CI else "skipped") + ": " + reason)
    sys.exit(1 if IN_CI else SKIPPED)


def need_fuse():
    try:
        os.close(os.open("/dev/fuse", os.O_RDWR))
    except OSError as e:
        skip(f"/dev/fuse cannot be opened: {e.strerror}")


# Models. Words like those of trained weights: exponents few and skewed, the rest random.

_EXPONENTS = bytes(min(max(int(random.Random(i).gauss(0x3c, 1.1) + 0.5), 0x37), 0x3f) | (i & 1) << 7 for i in range(256))


def weights(dtype, count, seed):
    """Bytes of `count` elements; the same for the same arguments."""
    source = random.Random(f"{dtype} {count} {seed}")
    if dtype in ("U8", "I8"):
        return source.randbytes(count)
    width = {"BF16": 2, "F16": 2, "F32": 4}[dtype]
    data = bytearray(source.randbytes(count * width))
    data[width - 1::width] = source.randbytes(count).translate(_EXPONENTS)
    return bytes(data)


def safetensors(tensors, metadata=None):
    """tensors: (name, dtype, shape, bytes)..."""
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(t[3] for t in tensors)


def make_model(path, mib=8, seed=1, dtype="BF16", tail=b"end"):
    """A model of about `mib` MiB in tensors of 2 MiB, small ones between and an odd tail; its bytes."""
    width = {"BF16": 2, "F16": 2, "F32": 4}[dtype]
    tensors = []
    for i in range(max(1, mib // 2)):
        count = 2 * MIB // width
        tensors.append((f"layer.{i}.weight", dtype, [count // 1024, 1024], weights(dtype, count, f"{seed}.{i}")))
        tensors.append((f"layer.{i}.bias", "F32", [257], weights("F32", 257, f"{seed}.b{i}")))
    if tail:
        tensors.append(("odd", "U8", [len(tail)], tail))
    data = safetensors(tensors, {"format": "pt"})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return data


def pack(source, target, *options):
    done = subprocess.run([PACK, "--progress", "never", "-q", *options, str(source), "-o", str(target)],
                          capture_output=True, text=True, timeout=300, check=False)
    expect(done.returncode == 0, f"brevis-pack gave {done.returncode}: {done.stderr.strip()}")


def packed_model(name, **how):
    """(folder of one archive, name in the mount, original bytes), made once per script and arguments."""
    folder = WORK / "packed" / name
    plain = WORK / "plain" / name / "model.safetensors"
    if not folder.exists():
        make_model(plain, **how)
        folder.mkdir(parents=True)
        pack(plain, folder / "model.safetensors.brv")
    return folder, "model.safetensors", plain.read_bytes()


# Mounts.

class Mount:
    """A daemon in the background, or in front as a child."""

    count = 0

    def __init__(self, source, at=None, options=(), foreground=False, env=None, program=None, **popen):
        Mount.count += 1
        self.source = pathlib.Path(source)
        self.at = pathlib.Path(at) if at else self.source
        with contextlib.suppress(FileExistsError):  # and no look at it: a dead mount may lie there
            os.mkdir(self.at)
        self.log = WORK / f"mount-{Mount.count}.log"
        self.log.touch()
        if "user" in popen:
            os.chown(self.log, popen["user"], popen["group"])
        command = [program or MOUNT, "--cache-dir", "none", "--log-file", str(self.log), "--log-format", "json",
                   *map(str, options), str(source)] + ([str(at)] if at else [])
        environment = {**os.environ, **sanitizer_environment(), **(env or {})}
        self.process = None
        if foreground:
            self.process = subprocess.Popen(command + ["-f"], env=environment, **popen)
            _started.append(self.process.pid)
            until(lambda: self.lines("mounted") or self.process.poll() is not None, "the mount", 30)
            expect(self.process.poll() is None, f"brevis-mount -f ended with {self.process.returncode}")
        else:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment, **popen)
            self.exit, self.errors = done.returncode, done.stderr
            expect(done.returncode == 0, f"brevis-mount gave {done.returncode}: {done.stderr.strip()}")
            expect(not done.stdout, f"brevis-mount printed {done.stdout!r}")
        self.pid = int(self.lines("mounted")[-1]["pid"])
        if not foreground:
            _started.append(self.pid)

    def lines(self, message=None):
        out = []
        for line in self.log.read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                out.append(json.loads(line))
        return [line for line in out if message is None or message in line["message"]]

    def counters(self):
        before = len(self.lines("counters"))
        os.kill(self.pid, signal.SIGUSR1)
        until(lambda: len(self.lines("counters")) > before, "the counters' line")
        return {k: int(v) for k, v in self.lines("counters")[-1].items() if v.isdigit()}

    def running(self):
        if self.process:
            return self.process.poll() is None
        try:  # ended, though whoever adopted it may not have noticed yet
            return pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def mounted(self):
        return any(line.split()[4] == str(self.at) for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines())

    def device(self):
        """MAJOR:MINOR of the mount."""
        return [line.split()[2] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
                if line.split()[4] == str(self.at)][-1]

    def freeze(self):
        """Until SIGCONT the daemon answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)
        tasks = pathlib.Path(f"/proc/{self.pid}/task")
        until(lambda: all(t.joinpath("stat").read_text().rpartition(")")[2].split()[0] == "T" for t in tasks.iterdir()), "the stop")

    def rss(self):
        """(resident bytes now, most so far)."""
        status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines())
        return tuple(int(status[k].split()[0]) * 1024 for k in ("VmRSS", "VmHWM"))

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def stop(self, number=signal.SIGTERM, seconds=15):
        if self.running():
            os.kill(self.pid, number)
            until(lambda: not self.running(), "the daemon's end", seconds)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.stop()
        if kind is None:
            expect(not self.mounted(), f"{self.at} is still mounted")


def sanitized():
    """Built with a sanitizer, whose own memory is nobody's budget."""
    return os.environ.get("BREVIS_SANITIZED", "") not in ("", "none")


def sanitizer_environment():
    """Reports of a sanitized daemon, whose stderr nobody reads, go to files. What a cut-off kernel held is no
    leak, nor is a thread that hangs in dead storage when the daemon ends."""
    if not sanitized():
        return {}
    where = f"log_path={WORK}/sanitizer"
    return {"TSAN_OPTIONS": where + ":report_thread_leaks=0", "ASAN_OPTIONS": where + ":detect_leaks=0", "UBSAN_OPTIONS": where + ":print_stacktrace=1"}


def sanitizer_reports():
    reports = [p.read_text(errors="replace") for p in sorted(WORK.glob("sanitizer*"))]
    for path in WORK.glob("sanitizer*"):
        path.unlink()
    return "\n".join(reports)


def drop_caches(path):
    """The kernel forgets a file's clean pages."""
    fd = os.open(path, os.O_RDONLY)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


@contextlib.contextmanager
def connections():
    """The folder in which the kernel lists the connections of FUSE, mounted for the time where it is not; or None."""
    usual = pathlib.Path("/sys/fs/fuse/connections")
    if os.path.ismount(usual):
        yield usual
        return
    own = pathlib.Path(tempfile.mkdtemp(prefix="connections.", dir=WORK))
    if subprocess.run(["mount", "-t", "fusectl", "none", own], capture_output=True, check=False).returncode != 0:
        yield None
        return
    try:
        yield own
    finally:
        subprocess.run(["umount", own], check=False)


def cut(device):
    """The kernel cuts the connection of the mount with this MAJOR:MINOR: whoever waits for its answers gets an error."""
    with connections() as folder, contextlib.suppress(OSError):
        if folder:
            (folder / device.split(":")[1] / "abort").write_text("1")


def unmount_all():
    for _ in range(3):  # mounts on mounts
        for line in reversed(pathlib.Path("/proc/self/mountinfo").read_text().splitlines()):
            at = line.split()[4].replace("\\040", " ")
            if at.startswith(str(WORK)):
                if " - fuse." in line:
                    cut(line.split()[2])  # a mount that hangs shall hold up nobody
                how = ["umount", "-l"] if os.getuid() == 0 else ["fusermount3", "-u", "-z"]
                subprocess.run([*how, at], capture_output=True, check=False)
    for pid in _started:
        with contextlib.suppress(OSError, ValueError):
            if pathlib.Path(f"/proc/{pid}/comm").read_text().strip() == "brevis-mount":
                os.kill(pid, signal.SIGKILL)


def clean_up():
    unmount_all()
    shutil.rmtree(WORK, ignore_errors=True)


def run(module, fuse=True):
    """Runs the cases (all, or those whose names contain an argument); exits 0 when all passed."""
    atexit.register(clean_up)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.chmod(WORK, 0o755)
    if not MOUNT:
        sys.exit("BREVIS_MOUNT names no program: run by 'meson test', or set BREVIS_MOUNT and BREVIS_PACK")
    if fuse:
        need_fuse()
    failed = 0
    for name, case in list(module.items()):
        if not name.startswith("case_") or (sys.argv[1:] and not any(a in name for a in sys.argv[1:])):
            continue
        began = time.monotonic()
        try:
            case()
            reports = sanitizer_reports()
            expect(not reports, f"the sanitizer found:\n{reports[:8000]}")
            print(f"ok    {name[5:]} ({time.monotonic() - began:.1f} s)", flush=True)
        except Exception as e:  # noqa: BLE001 - a case may fail in any way, the others still run
            failed += 1
            unmount_all()  # or the next cases fail for it
            print(f"FAIL  {name[5:]}: {e}", flush=True)
            print(sanitizer_reports()[:8000], end="", flush=True)
            if not isinstance(e, Failure):
                traceback.print_exc(file=sys.stdout)
    sys.exit(failed > 0)
