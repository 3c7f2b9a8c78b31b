# SPDX-License-Identifier: Apache-2.0
"""The programs when the machine is at its worst: killed at any moment, short reads, failing disks. test_faults.py SHIM

SHIM is faulty.cc, loaded before the programs.
"""
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

import cli_case
from cli_case import BIN, CliCase

SHIM = sys.argv.pop(1)
chance = random.Random(11)


def tree(folder):
    """A model directory of several files, large enough to be killed in between."""
    folder.mkdir()
    for i in range(4):
        tensors = [(f"t{j}", dtype, [count], cli_case.weights(dtype, count, 10 * i + j))
                   for j, (dtype, count) in enumerate((("BF16", 60000), ("F32", 20000), ("F16", 20000), ("U8", 3000)))]
        (folder / f"model-{i}.safetensors").write_bytes(cli_case.safetensors(tensors, {"format": "pt"}))
    (folder / "config.json").write_text("{}\n")
    return {p.name: p.read_bytes() for p in folder.iterdir()}


class Faults(CliCase):
    def program(self, *arguments, fault=None, log=None):
        environment = {**os.environ, "LD_PRELOAD": SHIM}
        if fault:
            environment["BREVIS_TEST_FAULT"] = fault
        if log:
            environment["BREVIS_TEST_FAULT_LOG"] = str(log)
        command = [str(BIN / arguments[0]), *map(str, arguments[1:])]
        return subprocess.run(command, capture_output=True, env=environment, timeout=120, check=False)

    def whole(self, archive, original):
        """An archive under its final name is sound and gives the original."""
        done = subprocess.run([BIN / "brevis", "cat", archive], capture_output=True, timeout=120, check=False)
        self.assertEqual((done.returncode, done.stdout == original), (0, True), archive)

    # I04: kill -9 at fifty points of a pack
    def test_killed_packer(self):
        plain = self.dir / "plain"
        originals = tree(plain)
        packed = self.dir / "packed"
        command = [BIN / "brevis-pack", "-q", "--progress", "never", plain, "-o", packed]
        before = time.monotonic()
        subprocess.run(command, check=True, timeout=120)
        whole_time = time.monotonic() - before
        sizes = {p.name: p.stat().st_size for p in packed.iterdir()}
        seen_archives = seen_partial = 0
        for i in range(50):
            shutil.rmtree(packed, ignore_errors=True)
            running = subprocess.Popen(command)
            time.sleep(whole_time * (i + chance.random()) / 50)
            running.send_signal(signal.SIGKILL)
            running.wait()
            names = sorted(p.name for p in packed.iterdir()) if packed.exists() else []
            final = [n for n in names if n in sizes]
            seen_archives += len(final)
            seen_partial += len(final) < len(sizes)
            for name in final:
                if name.endswith(".brv"):
                    self.whole(packed / name, originals[name[:-4]])
                else:
                    self.assertEqual((packed / name).read_bytes(), originals[name])
            strays = [n for n in names if n not in sizes]
            self.assertTrue(all(".tmp-" in n for n in strays) and len(strays) <= 1, strays)
            self.assertEqual({p.name: p.read_bytes() for p in plain.iterdir()}, originals, "the source changed")
        self.assertTrue(seen_archives and seen_partial > 5, (seen_archives, seen_partial))
        # What a killed one leaves is in nobody's way.
        subprocess.run([*command, "--force"], check=True, timeout=120)
        self.assertEqual({n: s for n, s in ((p.name, p.stat().st_size) for p in packed.iterdir()) if ".tmp-" not in n}, sizes)

    def test_killed_extract(self):
        plain = self.dir / "plain"
        originals = tree(plain)
        packed, back = self.dir / "packed", self.dir / "back"
        subprocess.run([BIN / "brevis-pack", "-q", "--progress", "never", plain, "-o", packed], check=True, timeout=120)
        command = [BIN / "brevis", "extract", "-q", packed, "-o", back]
        before = time.monotonic()
        subprocess.run(command, check=True, timeout=120)
        whole_time = time.monotonic() - before
        for i in range(20):
            shutil.rmtree(back, ignore_errors=True)
            running = subprocess.Popen(command)
            time.sleep(whole_time * (i + chance.random()) / 20)
            running.send_signal(signal.SIGKILL)
            running.wait()
            for path in back.iterdir() if back.exists() else ():
                if path.name in originals:
                    self.assertEqual(path.read_bytes(), originals[path.name], path.name)

    def series(self, count):
        """Snapshots of a model below run/step-N, as they are."""
        words, fixed = bytearray(cli_case.weights("BF16", 60000, 1)), cli_case.weights("F32", 20000, 2)
        originals = []
        for step in range(count):
            for i in range(0, len(words), 2):
                words[i] ^= chance.randrange(4) if step else 0
            tensors = [("w", "BF16", [60000], bytes(words)), ("m", "F32", [20000], fixed)]
            originals.append(cli_case.safetensors(tensors, {"step": str(step)}))
            self.write(f"run/step-{step}/model.safetensors", originals[-1])
        return originals

    def there(self, folder, originals):
        """Every snapshot can be had below folder: as it is, or whole from an archive."""
        for step, original in enumerate(originals):
            plain = folder / f"step-{step}/model.safetensors"
            archive = plain.with_name(plain.name + ".brv")
            if plain.exists():
                self.assertEqual(plain.read_bytes(), original, plain)
            if archive.exists():
                self.whole(archive, original)
            self.assertTrue(plain.exists() or archive.exists(), plain)

    def kill_at_random(self, before, command, again, check, finished, times=12):
        """The folder `work`, a copy of `before` each time, stays good whenever the command is killed; `again` ends it."""
        work, whole_time = self.dir / "work", 0
        for i in range(times + 1):
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(before, work)
            started = time.monotonic()
            running = subprocess.Popen([BIN / "brevis-pack", "-q", "--progress", "never", *command])
            if i:
                time.sleep(whole_time * (i - 1 + chance.random()) / times)
                running.send_signal(signal.SIGKILL)
            running.wait()
            whole_time = whole_time or time.monotonic() - started
            check(work)
            if i:
                done = subprocess.run([BIN / "brevis-pack", "-q", "--progress", "never", *again], capture_output=True, timeout=120)
                self.assertEqual(done.returncode, 0, done.stderr)
                check(work)
            finished(work)

    def bases_of(self, archive):
        shown = subprocess.run([BIN / "brevis", "inspect", "--json", archive], capture_output=True, check=True, timeout=120)
        return [base["id"] for base in json.loads(shown.stdout)["archive"].get("bases", [])]

    # I04: kill -9 while archives that stand on others are made, packed anew, or take the place of their sources
    def test_killed_relations(self):
        steps = range(4)
        originals = self.series(len(steps))
        run, packed, work = self.dir / "run", self.dir / "packed", self.dir / "work"
        folders = [work / f"step-{step}" for step in steps]
        archives = [folder / "model.safetensors.brv" for folder in folders]
        check = lambda at: self.there(at, originals)

        def chained(_):
            self.assertEqual([len(self.bases_of(archive)) for archive in archives], [0, 1, 1, 1])

        def replaced(_):
            self.assertEqual(sorted(p.name for f in folders for p in f.iterdir() if ".tmp-" not in p.name),
                             ["model.safetensors.brv"] * len(steps))
            chained(_)

        def alone(_):
            self.assertEqual([self.bases_of(archive) for archive in archives], [[]] * len(steps))

        self.kill_at_random(run, [*folders, "--chain"], [*folders, "--chain", "--resume"], check, chained)
        self.kill_at_random(run, [*folders, "--chain", "--replace"], [*folders, "--chain", "--resume", "--replace"], check, replaced)
        subprocess.run([BIN / "brevis-pack", "-q", *[run / f"step-{step}" for step in steps], "--chain", "-o", packed], check=True)
        self.kill_at_random(packed, ["--flatten", work], ["--flatten", work], check, alone)
        other = self.dir / "other.brv"
        subprocess.run([BIN / "brevis-pack", "-q", run / "step-1/model.safetensors", "-o", other], check=True)
        shown = subprocess.run([BIN / "brevis", "inspect", "--json", other], capture_output=True, check=True)
        identity = json.loads(shown.stdout)["archive"]["id"]

        def rebased(_):
            self.assertEqual([self.bases_of(archive) for archive in archives], [[identity]] * len(steps))

        self.kill_at_random(packed, ["--rebase", other, work], ["--rebase", other, work], check, rebased)

    def one(self):
        tensors = [("a", "BF16", [30000], cli_case.weights("BF16", 30000, 1)), ("b", "F32", [9000], cli_case.weights("F32", 9000, 2))]
        data = cli_case.safetensors(tensors)
        plain = self.dir / "m.safetensors"
        plain.write_bytes(data)
        return plain, data

    def test_short_and_interrupted_calls_change_nothing(self):
        plain, data = self.one()
        straight, crooked = self.dir / "a.brv", self.dir / "b.brv"
        for target, fault in ((straight, None), (crooked, "short")):
            done = self.program("brevis-pack", "-q", "--progress", "never", plain, "-o", target, fault=fault)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(straight.read_bytes(), crooked.read_bytes())
        self.assertEqual(self.program("brevis", "cat", straight, fault="short").stdout, data)
        self.assertEqual(self.program("brevis", "fsck", straight, fault="short").returncode, 0)
        back = self.dir / "back"
        done = self.program("brevis", "extract", straight, "-o", back, fault="short")
        self.assertEqual((done.returncode, back.read_bytes() == data), (0, True), done.stderr)

    def calls(self, *arguments):
        log = self.dir / "calls"
        self.assertEqual(self.program(*arguments, log=log).returncode, 0)
        return {line.split()[0]: int(line.split()[1]) for line in log.read_text().splitlines()}

    # I04: a disk that fails or is full from any call on
    def test_failing_disks(self):
        plain, data = self.one()
        packed = self.dir / "m.brv"
        pack = ("brevis-pack", "-q", "--progress", "never", plain, "-o", packed)
        made = self.calls(*pack)
        keep = packed.read_bytes()
        self.assertTrue(all(made.values()), made)
        for call, number, codes in (("read", errno.EIO, (74,)), ("write", errno.ENOSPC, (74,)), ("write", errno.EIO, (74,)),
                                    ("fsync", errno.EIO, (74,))):
            points = sorted({1, made[call], *(chance.randint(1, made[call]) for _ in range(12))})
            for n in points:
                packed.unlink(missing_ok=True)
                done = self.program(*pack, fault=f"{call}:{number}:{n}")
                if packed.exists():  # the failing call was of no matter: then all is well
                    self.assertEqual((done.returncode, packed.read_bytes() == keep), (0, True), (call, n))
                    continue
                self.assertIn(done.returncode, codes, (call, n, done.stderr))
                self.assertTrue(done.stderr and plain.read_bytes() == data)
                self.assertEqual([p.name for p in self.dir.iterdir() if ".tmp-" in p.name], [], (call, n))
        packed.write_bytes(keep)
        made = self.calls("brevis", "cat", packed)
        for n in sorted({1, made["read"], *(chance.randint(1, made["read"]) for _ in range(12))}):
            done = self.program("brevis", "cat", packed, fault=f"read:{errno.EIO}:{n}")
            self.assertIn(done.returncode, (65, 74), (n, done.stderr))
            self.assertTrue(data.startswith(done.stdout) and len(done.stdout) < len(data), n)
            done = self.program("brevis", "fsck", packed, fault=f"read:{errno.EIO}:{n}")
            self.assertNotEqual(done.returncode, 0, n)


if __name__ == "__main__":
    unittest.main()
