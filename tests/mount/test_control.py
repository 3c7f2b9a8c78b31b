# SPDX-License-Identifier: Apache-2.0
"""The control socket and the metrics: commands, strangers, hostile bytes, ends at the wrong moment."""
import array
import errno
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import time

import harness
from harness import MIB, NOBODY, TOOL, WORK, Mount, expect, expect_equal, expect_errno, until

LONG = os.environ.get("BREVIS_LONG") == "1"


def small(name, seed=1):
    return harness.packed_model(name, mib=2, seed=seed)


def brevis(*arguments, code=0, **how):
    done = subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False, **how)
    expect(done.returncode == code, f"brevis {arguments}: exit {done.returncode}, not {code}: {done.stdout}{done.stderr}")
    return done


def stats(at):
    return json.loads(brevis("stats", "--json", at).stdout)


def connect(mount):
    peer = socket.socket(socket.AF_UNIX)
    peer.connect(os.getxattr(mount.at, "user.brevis.control").decode())
    peer.settimeout(20)
    return peer


def answer(peer):
    """The next line; None when the daemon has closed."""
    got = b""
    while not got.endswith(b"\n"):
        try:
            more = peer.recv(1)
        except ConnectionResetError:
            return None
        if not more:
            return None
        got += more
    return json.loads(got)


def case_add_replace_remove_in_place():
    tree = WORK / "edit"
    folder, name, data = small("one")
    _, _, other = small("two", 77)
    archive = folder / (name + ".brv")
    newer = WORK / "packed/two" / (name + ".brv")
    (tree / "m").mkdir(parents=True)
    with Mount(tree) as mount:
        expect_equal(os.getxattr(tree, "user.brevis.control").decode(), f"/run/brevis/{str(tree)[1:].replace('/', '-')}.sock"
                     if "-" not in str(tree) and os.getuid() == 0 else os.getxattr(tree, "user.brevis.control").decode(), "the socket's place")
        done = brevis("add", tree, archive, "--to", "m/new/er", "--json")
        expect_equal(json.loads(done.stdout), {"schema": 1, "files": [{"path": f"m/new/er/{name}.brv", "bytes": archive.stat().st_size}],
                                               "added": 1, "exit_code": 0}, "the answer")
        shown = tree / "m/new/er" / name
        expect_equal(shown.read_bytes(), data, "the file")
        raw = tree / ".brevis/m/new/er" / (name + ".brv")
        expect_equal((raw.stat().st_mode, raw.stat().st_mtime_ns), (archive.stat().st_mode, archive.stat().st_mtime_ns), "mode and time")
        expect("exists already" in brevis("add", tree, archive, "--to", "m/new/er", code=73).stderr, "why not")
        brevis("replace", tree, newer, "--to", "m", code=66)
        held = os.open(shown, os.O_RDONLY)
        expect_equal(brevis("replace", tree, newer, "--to", tree / "m/new/er").stdout, f"replaced m/new/er/{name}.brv\n", "output")
        expect_equal(shown.read_bytes(), other, "the new file")
        expect_equal(os.pread(held, len(data), 0), data, "the old one, still open")
        os.close(held)
        # other files, directories, moving
        (WORK / "more/sub").mkdir(parents=True)
        (WORK / "more/config.json").write_text("{}")
        shutil.copyfile(archive, WORK / "more/sub/x.brv")
        expect_equal(brevis("add", tree, WORK / "more", "--move").stdout, "added more/config.json\nadded more/sub/x.brv\n", "output")
        expect_equal([p.name for p in (WORK / "more").rglob("*") if p.is_file()], [], "what was moved")
        expect_equal(((tree / "more/config.json").read_text(), (tree / "more/sub/x").read_bytes()), ("{}", data), "what was added")
        # a plain file would hide an archive, an archive would be hidden by it
        (WORK / "x").write_text("x")
        expect("stands there already" in brevis("add", tree, WORK / "x", "--to", "more/sub", code=73).stderr, "why not")
        # what is no whole archive, no plain path, no file
        (WORK / "cut.brv").write_bytes(archive.read_bytes()[:-1])
        brevis("add", tree, WORK / "cut.brv", code=65)
        (WORK / "foreign.brv").write_text("no archive at all")
        brevis("replace", tree, WORK / "foreign.brv", code=66)
        for bad in ("..", "../x", "a/../..", "/etc", ".brevis/m", "a//b", "a/" * 3000, "a" * 256):
            brevis("add", tree, archive, "--to", bad, code=73)
        brevis("add", tree, WORK / "missing", code=66)
        brevis("add", WORK, archive, code=66)
        # out again, by the name that is seen or its own
        done = brevis("remove", tree, f"m/new/er/{name}", tree / "more/sub/x.brv", "more/config.json", "nothing", "m", code=66)
        expect_equal(done.stdout, f"removed m/new/er/{name}.brv\nremoved more/sub/x.brv\nremoved more/config.json\n", "output")
        expect_equal([p.name for p in tree.rglob("*") if p.is_file()], [], "what is left")
        until(lambda: mount.counters()["archives"] == 0, "the count of archives")
    expect_equal([p.name for p in tree.rglob("*") if p.is_file()], [], "what is left on disk")


def case_what_replaced_itself_is_not_removed():
    tree = WORK / "itself"
    folder, name, data = small("one")
    archive = tree / (name + ".brv")
    tree.mkdir()
    shutil.copyfile(folder / archive.name, archive)
    with Mount(tree, WORK / "beside") as mount:
        expect("is left as it is" in brevis("replace", mount.at, archive, "--move", code=75).stderr, "why not")
        expect_equal((mount.at / name).read_bytes(), data, "the file")


def case_stats_and_warm():
    # M10, M13, M25: counters as JSON and for people; a damaged frame shows; what was warmed is not asked for again
    tree = WORK / "stats"
    tree.mkdir()
    folder, name, data = small("one")
    archive = bytearray((folder / (name + ".brv")).read_bytes())
    (tree / "good.brv").write_bytes(archive)
    archive[len(archive) // 2] ^= 1
    (tree / "bad.brv").write_bytes(archive)
    with Mount(tree, WORK / "mnt") as mount:
        before = stats(mount.at)
        expect_equal([before[k] for k in ("schema", "pid", "source", "mountpoint", "max_background")],
                     [1, mount.pid, str(tree), str(mount.at), 64], "facts")
        expect_equal(before["counters"]["damaged_frames"], 0, "damage before")
        done = json.loads(brevis("warm", mount.at, "good", "--json").stdout)
        expect_equal((done["files"], done["bytes"]), (1, len(data)), "warmed")
        warmed = stats(mount.at)["counters"]
        expect(warmed["bytes_read"] >= len(data) and warmed["frames_decoded"] > 0, f"counters {warmed}")
        expect_equal((mount.at / "good").read_bytes(), data, "the file")
        expect_equal(stats(mount.at)["counters"]["reads"], warmed["reads"], "reads asked of the daemon after warming")
        expect_errno(errno.EIO, "reading the damaged file", (mount.at / "bad").read_bytes)
        after = stats(mount.at)
        expect_equal(after["counters"]["damaged_frames"], 1, "damage after")
        expect(after["requests"]["read"]["count"] > 0 and after["requests"]["read"]["mean_ms"] > 0, "latencies")
        text = brevis("stats", mount.at / "good").stdout
        expect("DAMAGE  1 frame" in text and re.search(r"(?m)^damaged_frames +1$", text), text)
        expect("damaged_frames" in json.dumps(mount.counters()), "the line in the log")
        with subprocess.Popen([TOOL, "stats", "--watch", "--interval", "0.1", "--json", mount.at], stdout=subprocess.PIPE, text=True) as watch:
            lines = [json.loads(watch.stdout.readline()) for _ in range(3)]
            watch.send_signal(signal.SIGINT)
            expect_equal(watch.wait(10), 130, "exit code on an interrupt")
        expect(all(line["counters"]["damaged_frames"] == 1 for line in lines), "watched lines")
        brevis("warm", mount.at / "missing", code=66)
        brevis("warm", mount.at, code=74)  # the damaged file is in there
    brevis("stats", mount.at, code=66)
    dead = Mount(tree, WORK / "mnt")
    os.kill(dead.pid, signal.SIGKILL)
    until(lambda: not dead.running(), "the death")
    expect("died" in brevis("stats", dead.at, code=69).stderr, "why not")
    with Mount(tree, WORK / "mnt") as again:  # over what the dead one left, its socket too
        expect_equal(stats(again.at)["pid"], again.pid, "the new daemon's answer")


def scrape(address, request=b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"):
    if isinstance(address, tuple):
        peer = socket.create_connection(address, 20)
    else:
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(str(address))
    with peer:
        peer.settimeout(20)
        peer.sendall(request)
        got = b""
        try:
            while more := peer.recv(65536):
                got += more
        except ConnectionResetError:
            pass
    head, _, body = got.partition(b"\r\n\r\n")
    return head.decode(), body.decode()


def case_metrics():
    tree = WORK / "metrics"
    tree.mkdir()
    folder, name, data = small("one")
    shutil.copyfile(folder / (name + ".brv"), tree / "m.brv")
    place = WORK / "metrics.sock"
    with Mount(tree, WORK / "mnt", ["--metrics", f"unix:{place}", "--control", WORK / "control.sock"]) as mount:
        expect_equal((mount.at / "m").read_bytes(), data, "the file")
        expect_equal(os.getxattr(mount.at, "user.brevis.control").decode(), str(WORK / "control.sock"), "--control")
        head, body = scrape(place)
        expect(head.startswith("HTTP/1.1 200 OK") and f"Content-Length: {len(body)}" in head and "version=0.0.4" in head, head)
        values = dict(line.rsplit(" ", 1) for line in body.splitlines() if not line.startswith("#"))
        expect(all(re.fullmatch(r'brevis_[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})?', n) for n in values), f"names {sorted(values)}")
        expect_equal(float(values["brevis_read_bytes_total"]), len(data), "bytes read")
        expect_equal(float(values["brevis_damaged_frames_total"]), 0, "damage")
        expect(float(values['brevis_request_seconds_bucket{operation="read",le="+Inf"}']) > 0, "latencies")
        now = stats(mount.at)["counters"]
        expect_equal(sum(n.startswith("# HELP") for n in body.splitlines()), len(now) + 4, "families, a counter each and four more")
        for request, status in ((b"GET /else HTTP/1.1\r\n\r\n", "404"), (b"POST /metrics HTTP/1.1\r\n\r\n", "405"), (b"rubbish\r\n\r\n", "400"),
                                (b"HEAD /metrics HTTP/1.0\r\n\r\n", "200"), (b"GET /metrics?x=1 HTTP/1.1\n\n", "200")):
            expect(f" {status} " in scrape(place, request)[0].splitlines()[0], f"{request}: {scrape(place, request)[0]}")
        expect_equal(scrape(place, b"x" * 100_000)[0], "", "the answer to a head without an end")
        # a place that is taken
        (WORK / "mnt2").mkdir(exist_ok=True)
        for option in (["--metrics", f"unix:{place}"], ["--control", WORK / "control.sock"]):
            done = subprocess.run([harness.MOUNT, *map(str, option), tree, WORK / "mnt2"], capture_output=True, text=True, timeout=20, check=False)
            expect_equal(done.returncode, 75, f"exit code with {option} taken: {done.stderr}")
    expect(not place.exists() and not (WORK / "control.sock").exists(), "sockets are left behind")
    with Mount(tree, WORK / "mnt", ["--metrics", "127.0.0.1:0", "--control", "none"]) as mount:
        host, port = mount.lines("metrics")[-1]["address"].rsplit(":", 1)
        expect_equal(host, "127.0.0.1", "the address")
        expect("brevis_archives" in scrape((host, int(port)))[1], "the metrics over TCP")
        expect_errno(errno.ENODATA, "the attribute without a socket", lambda: os.getxattr(mount.at, "user.brevis.control"))
        brevis("stats", mount.at, code=66)


def case_only_its_user_is_answered():
    if os.getuid() != 0:
        return
    tree = WORK / "closed"
    tree.mkdir()
    with Mount(tree, WORK / "mnt", ["--allow-other"]) as mount:
        place = os.getxattr(mount.at, "user.brevis.control").decode()
        expect_equal(os.stat(place).st_mode & 0o777, 0o600, "mode of the socket")
        program = WORK / "brevis"
        shutil.copy(TOOL, program)  # the build folder may be closed to others
        how = {"user": NOBODY, "group": NOBODY, "extra_groups": [], "cwd": "/"}
        done = subprocess.run([program, "stats", mount.at], capture_output=True, text=True, check=False, **how)
        expect_equal(done.returncode, 77, f"exit code for somebody else: {done.stderr}")
        os.chmod(place, 0o666)  # and if it were open
        os.chmod(pathlib.Path(place).parent, 0o755)
        done = subprocess.run([program, "stats", mount.at], capture_output=True, text=True, check=False, **how)
        expect_equal((done.returncode, "only the user" in done.stderr), (77, True), f"with the socket open: {done.stderr}")


def hostile(source):
    """A stranger's bytes."""
    kind = source.randrange(9)
    if kind == 0:
        return source.randbytes(source.randrange(3000))
    if kind == 1:
        return b"\n" * source.randrange(1000)
    if kind == 2:
        return b'{"command":' * source.randrange(3000) + b"\n"
    if kind == 3:
        return b"[" * source.randrange(60_000) + b"\n"
    if kind == 4:
        good = bytearray(b'{"command": "put", "path": "a/b.brv", "replace": true, "schema": 1}\n')
        for _ in range(source.randrange(1, 6)):
            good[source.randrange(len(good))] = source.randrange(256)
        return bytes(good)
    if kind == 5:
        return b"x" * source.choice([65_535, 65_536, 65_537, 200_000])
    if kind == 6:
        return json.dumps({"command": source.choice(["put", "remove", "stats", "rescan"]),
                           "path": source.choice(["", "..", "/", "a/../../b", ".brevis/x", "x" * 5000, "\0", "\u00e9", "a\nb"])}).encode() + b"\n"
    if kind == 7:
        return b'{"command":"stats"}\n' * source.randrange(200)
    return b'{"command": "stats", "more": 1e999, "x": "\\ud800"}\n{"command": 7}\nnull\n"stats"\n'


def case_hostile_bytes():
    # nothing a stranger sends ends the daemon, costs it descriptors or memory, or changes the tree
    tree = WORK / "hostile"
    tree.mkdir()
    folder, name, data = small("one")
    shutil.copyfile(folder / (name + ".brv"), tree / "m.brv")
    source = random.Random(20261129)
    with Mount(tree, WORK / "mnt") as mount:
        expect_equal((mount.at / "m").read_bytes(), data, "before")
        stats(mount.at)
        fds = pathlib.Path(f"/proc/{mount.pid}/fd")
        before = len(list(fds.iterdir()))
        for round_ in range(3000 if LONG else 300):
            with connect(mount) as peer:
                peer.settimeout(2)
                try:
                    for _ in range(source.randrange(1, 4)):
                        passed = [os.open(tree, os.O_RDONLY) for _ in range(source.choice([0, 0, 1, 3, 12]))]
                        peer.sendmsg([hostile(source)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", passed))] if passed else [])
                        for fd in passed:
                            os.close(fd)
                    if source.random() < 0.5:
                        peer.shutdown(socket.SHUT_WR)
                    if source.random() < 0.5:
                        peer.recv(65536)
                except (BrokenPipeError, ConnectionResetError, TimeoutError, socket.timeout):
                    pass
            expect(mount.running(), f"the daemon died in round {round_}")
        # whoever has gone is forgotten, also one who went in the middle of a request
        stats(mount.at)
        # many at once, silent ones: others are still answered once they have gone
        crowd = [connect(mount) for _ in range(60)]
        for peer in crowd:
            peer.close()
        until(lambda: stats_or_none(mount) is not None, "an answer after the crowd")
        until(lambda: len(list(fds.iterdir())) <= before + 1, f"descriptors are kept: {before} before", 20)
        expect_equal(sorted(os.listdir(mount.at)), ["m"], "the tree")
        expect_equal((mount.at / "m").read_bytes(), data, "after")
        with connect(mount) as peer:  # nothing more to say is no reason not to answer
            peer.send(b'{"command":"rescan"}\n{"command":"remove","path":"none"}\n{"command":"stats"}\n')
            peer.shutdown(socket.SHUT_WR)
            expect_equal(answer(peer), {"schema": 1}, "the first answer")
            expect_equal(answer(peer)["exit_code"], 66, "the second answer")
            expect_equal(answer(peer)["pid"], mount.pid, "the third answer")
            expect_equal(answer(peer), None, "and the end")
        with connect(mount) as peer:  # a line in pieces, two in one
            for byte in b'{"command":"rescan"}\n{"command":"sta':
                peer.send(bytes([byte]))
            expect_equal(answer(peer), {"schema": 1}, "the first answer")
            peer.send(b'ts"}\n')
            expect_equal(answer(peer)["pid"], mount.pid, "the second answer")
            peer.send(b'{"command":"put","path":"p"}\n')
            expect_equal(answer(peer)["error"]["kind"], "invalid_argument", "put without a file")
            peer.sendmsg([b'{"command":"put","path":"p"}\n'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [peer.fileno()]))])
            expect_equal(answer(peer)["error"]["kind"], "invalid_argument", "put with a socket as file")
            peer.send(b"x" * 70_000)
            expect_equal(answer(peer)["exit_code"], 2, "a line without an end")
            expect_equal(answer(peer), None, "and the end")


def stats_or_none(mount):
    done = subprocess.run([TOOL, "stats", "--json", mount.at], capture_output=True, text=True, check=False, timeout=20)
    return done.stdout if done.returncode == 0 else None


def case_ended_while_a_file_is_added():
    # SIGTERM, or the caller's end, in the middle of a copy: nothing half is left, and the caller is told
    tree = WORK / "cut"
    tree.mkdir()
    big = WORK / "big.bin"
    with open(big, "wb") as file:
        file.truncate(6 << 30)
    for how in ("caller", "daemon"):
        with Mount(tree, foreground=True) as mount:
            raw = tree / ".brevis"
            adding = subprocess.Popen([TOOL, "add", tree, big], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            until(lambda: any(".tmp-" in n for n in os.listdir(raw)) or adding.poll() is not None, "the copy under way")
            if adding.poll() is not None:  # extents were shared: there is no middle
                expect_equal(adding.returncode, 0, "brevis add")
                brevis("remove", tree, "big.bin")
                continue
            if how == "caller":
                adding.send_signal(signal.SIGINT)
                expect_equal(adding.wait(20), 130, f"exit code of the caller: {adding.stderr.read()}")
                until(lambda: os.listdir(raw) == [], "the temporary file is gone")
            else:
                began = time.monotonic()
                mount.process.terminate()
                expect(adding.wait(20) in (69, 75), f"exit code of the caller: {adding.returncode} {adding.stderr.read()}")
                expect_equal(mount.process.wait(20), 0, "exit code of the daemon")
                expect(time.monotonic() - began < 10, "the end took long")
        expect_equal(os.listdir(tree), [], f"what is left ({how})")
    big.unlink()


def case_the_disk_is_full():
    # an archive that has no room: an error, nothing half is left, and the tree is served on
    if os.getuid() != 0:
        return
    disk = WORK / "disk"
    disk.mkdir()
    folder, name, data = small("one")
    archive = folder / (name + ".brv")
    size = archive.stat().st_size
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={2 * size + size // 2}", "tmpfs", disk], check=True)
    try:
        tree = disk / "tree"
        tree.mkdir()
        shutil.copyfile(archive, tree / "m.brv")
        shutil.copyfile(archive, WORK / "second.brv")
        shutil.copyfile(archive, WORK / "third.brv")
        with Mount(tree) as mount:
            brevis("add", tree, WORK / "second.brv")
            for command in (("add", WORK / "third.brv"), ("replace", WORK / "second.brv")):
                done = brevis(command[0], tree, command[1], code=74)
                expect("space" in done.stderr, f"what is said: {done.stderr}")
                expect_equal(sorted(os.listdir(tree / ".brevis")), ["m.brv", "second.brv"], "the tree")
            for file in ("m", "second"):
                expect_equal((mount.at / file).read_bytes(), data, file)
            brevis("remove", tree, "second")
            brevis("add", tree, WORK / "third.brv")
            expect_equal((mount.at / "third").read_bytes(), data, "what has room again")
            # Room for bytes, and none for a file, nor for a directory.
            subprocess.run(["mount", "-o", "remount,nr_inodes=4", disk], check=True)
            for to in ((), ("--to", "new/er")):
                done = brevis("add", tree, WORK / "second.brv", *to, code=73)
                expect("space" in done.stderr, f"what is said: {done.stderr}")
            expect_equal(sorted(os.listdir(tree / ".brevis")), ["m.brv", "third.brv"], "the tree")
    finally:
        subprocess.run(["umount", "-l", disk], check=True)


if __name__ == "__main__":
    harness.run(globals())
