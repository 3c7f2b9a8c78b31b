# SPDX-License-Identifier: Apache-2.0
"""brevis-pack, brevis fsck and brevis extract."""
import hashlib
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import unittest

from cli_case import BIN, LFS_POINTER, CliCase, main, model, raw, safetensors, weights


def flipped(data, at, bit=1):
    out = bytearray(data)
    out[at] ^= bit
    return bytes(out)


class Verdicts(CliCase):
    """The table of verdicts: on its own, inside a directory, with --strict."""

    def round_trip(self, name, data, *options):
        archive = self.dir / "x.brv"
        run = self.good(self.pack(self.write(name, data), "-o", archive, "--force", *options))
        self.assertEqual(self.good(self.brevis("cat", archive)).out, data)
        self.good(self.brevis("fsck", archive))
        return run

    def test_valid(self):
        self.assertEqual(self.round_trip("m.safetensors", model(), "--strict").err, "")

    def lenient(self, data, *words):
        run = self.round_trip("m.safetensors", data)
        self.assertIn("warning", run.err)
        for word in words:
            self.assertIn(word, run.err)
        self.fails(self.pack("m.safetensors", "-o", "strict.brv", "--strict"), 65, "m.safetensors", *words)
        self.assertFalse((self.dir / "strict.brv").exists())

    # F02, F03: duplicate names
    def test_duplicate_names(self):
        entry = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
        other = '{"dtype":"U8","shape":[1],"data_offsets":[1,2]}'
        self.lenient(raw(f'{{"a":{entry},"a":{entry}}}', b"x"), "'a'", "duplicate")
        self.lenient(raw(f'{{"a":{entry},"a":{other}}}', b"xy"), "'a'", "duplicate")
        self.lenient(raw(f'{{"a":{other},"a":{entry}}}', b"xy"), "'a'", "duplicate")

    # F04: a number in the metadata
    def test_metadata_number(self):
        self.lenient(raw('{"__metadata__":{"n":0}}'), "metadata value of 'n' is not a string")

    # F12: stray bytes at the end
    def test_trailing_bytes(self):
        self.lenient(model() + b"\x09\x07\x2f\0", "4 trailing bytes")
        run = self.good(self.brevis("fsck", "x.brv"))
        self.assertIn("4 trailing bytes", run.text)

    # F16, F17, F18, F21: dtypes unknown, shapes that lie
    def test_entries_that_make_no_sense(self):
        self.lenient(raw('{"q":{"dtype":"Q9","shape":[4],"data_offsets":[18446744073709551608,18446744073709551615]}}', b"abcd"))
        self.lenient(raw('{"a":{"dtype":"F32","shape":[1024,1024],"data_offsets":[0,4]}}', b"abcd"), "takes 4194304 bytes")
        self.lenient(raw('{"a":{"dtype":"F16","shape":[1],"data_offsets":[0,4]}}', b"abcd"), "takes 2 bytes")
        self.lenient(raw('{"a":{"dtype":"F9","shape":[4],"data_offsets":[0,4]}}', b"abcd"), "unknown dtype 'F9', treated as bytes")

    # F06, F07, F08, F09, F10, F14, F23, F29: odd but valid, and kept as they are
    def test_valid_though_odd(self):
        tricky = {"a{}b\"\\": "}{\"\\", "big": "x" * 100000}
        for data in (raw("{}"), raw('{"__metadata__":{}}'), raw('{"__metadata__":null}'), raw('{"__metadata__":{"a":"b"}}'),
                     safetensors([("a", "F32", [0], b""), ("b", "F32", [2, 0], b""), ("c", "U8", [0, 5], b"")]),
                     safetensors([("s", "U8", [], b"z")]), safetensors([("odd", "U8", [3], b"abc"), ("f", "F32", [16], weights("F32", 16, 1))], pad=False),
                     safetensors([("t", "BF16", [64], weights("BF16", 64, 2))], tricky)):
            self.assertEqual(self.round_trip("m.safetensors", data, "--strict").err, "")

    # F07: the malformed header of an old writer is packed as bytes
    def test_malformed_header(self):
        data = raw('{},"__metadata__":{"a":"b"}}')
        self.fails(self.pack(self.write("m.safetensors", data), "-o", "m.brv"), 65, "m.safetensors")
        self.assertEqual(self.round_trip("blob", data).code, 0)
        self.write("tree/m.safetensors", data)
        self.assertIn("m.safetensors", self.good(self.pack("tree", "-o", "out")).err)
        self.assertEqual(self.good(self.brevis("cat", "out/m.safetensors.brv")).out, data)

    # F13: cut files say how much is missing
    def test_truncated(self):
        whole = model()
        start = 8 + int.from_bytes(whole[:8], "little")
        for size in (8, 20, start, start + 5000, len(whole) - 1):
            missing = (start if size < start else len(whole)) - size
            words = ("m.safetensors", f"{missing} byte", "short of what its header declares")
            source = self.write("m.safetensors", whole[:size])
            self.fails(self.pack(source, "-o", "t.brv"), 65, *words)
            self.assertFalse((self.dir / "t.brv").exists())
            self.fails(self.pack(source, "-o", "t.brv", "--strict", "--allow-truncated"), 65)
            self.round_trip("m.safetensors", whole[:size], "--allow-truncated")
        for size in (0, 7):
            self.fails(self.pack(self.write("m.safetensors", whole[:size]), "-o", "t.brv"), 65, "m.safetensors")

    def test_truncated_in_a_directory(self):
        self.write("tree/a.safetensors", model(1))
        self.write("tree/b.safetensors", model(2)[:-10])
        self.write("tree/c.safetensors", model(3))
        self.fails(self.pack("tree", "-o", "out"), 65, "b.safetensors", "10 bytes short")
        self.assertEqual(sorted(p.name for p in (self.dir / "out").iterdir()), ["a.safetensors.brv", "c.safetensors.brv"])
        self.good(self.pack("tree", "-o", "all", "--allow-truncated"))
        self.assertEqual(self.good(self.brevis("cat", "all/b.safetensors.brv")).out, model(2)[:-10])

    # F30: not safetensors, named so
    def test_not_safetensors(self):
        for data, word in ((LFS_POINTER, "Git LFS pointer"), (b"PK\3\4" + b"\0" * 40, "zip archive"), (b"GGUF\3\0\0\0" + b"\0" * 40, "GGUF"),
                           (b"<!doctype html>" + b" " * 40, "HTML page"), (b"\x80\2}q\0." + b"\0" * 40, "pickle"), (b"", "empty file")):
            self.fails(self.pack(self.write("m.safetensors", data), "-o", "m.brv"), 65, "m.safetensors", word)
            self.round_trip("other.bin", data)
        self.write("tree/m.safetensors", LFS_POINTER)
        run = self.good(self.pack("tree", "-o", "out"))
        self.assertIn("Git LFS pointer", run.err)
        self.assertEqual(self.good(self.brevis("cat", "out/m.safetensors.brv")).out, LFS_POINTER)
        self.fails(self.pack("tree", "-o", "strict", "--strict"), 65, "Git LFS pointer")

    # F20: every dtype
    def test_all_dtypes(self):
        bits = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
                "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
                "C64": 64, "F64": 64, "I64": 64, "U64": 64}
        source = random.Random(5)
        data = safetensors([(d, d, [8, 25], source.randbytes(200 * b // 8)) for d, b in bits.items()])
        self.round_trip("m.safetensors", data, "--strict")


class Pack(CliCase):
    # Z12: what was saved, and how fast, is said at the end
    def test_summary_and_json(self):
        self.write("m.safetensors", model())
        self.expect("pack_summary", self.good(self.pack("m.safetensors", "-o", "a.brv")).text)
        document = self.good(self.pack("m.safetensors", "-o", "b.brv", "--json")).json
        self.assertEqual((document["schema"], document["exit_code"], len(document["files"])), (1, 0, 1))
        one = document["files"][0]
        self.assertEqual((one["action"], one["verdict"], one["tensors"]), ("packed", "valid", 7))
        self.assertEqual(one["sha256"], hashlib.sha256(model()).hexdigest())
        self.assertEqual(one["bytes_out"], (self.dir / "b.brv").stat().st_size)
        for part in ("planning_seconds", "training_seconds"):  # of its processor time
            self.assertTrue(0 < one[part] < 10, part)
        self.assertEqual((self.dir / "a.brv").read_bytes(), (self.dir / "b.brv").read_bytes())

    # Z04: equal tensors are stored once
    def test_tied_tensors(self):
        data = weights("BF16", 256 * 256, 4)
        self.write("m.safetensors", safetensors([(n, "BF16", [256, 256], data) for n in ("a", "b")]))
        one = self.good(self.pack("m.safetensors", "-o", "a.brv", "--json")).json["files"][0]
        self.assertEqual((one["duplicate_tensors"], one["duplicate_bytes"]), (1, len(data)))
        self.assertLess(one["bytes_out"], len(data))

    def test_quiet_and_verbose(self):
        self.write("m.safetensors", model() + b"x")
        run = self.good(self.pack("m.safetensors", "-o", "a.brv", "-q"))
        self.assertEqual((run.out, run.err), (b"", ""))
        self.assertIn("packed m.safetensors", self.good(self.pack("m.safetensors", "-o", "b.brv", "-v")).err)

    def test_targets(self):
        self.write("m.safetensors", model())
        (self.dir / "there").mkdir()
        self.good(self.pack("m.safetensors", "-o", "there"))
        self.assertTrue((self.dir / "there/m.safetensors.brv").exists())
        self.good(self.pack("m.safetensors"))
        self.assertTrue((self.dir / "m.safetensors.brv").exists())
        self.fails(self.pack("m.safetensors"), 73, "m.safetensors.brv", "exists")
        self.good(self.pack("m.safetensors", "--force"))
        self.fails(self.pack("m.safetensors", "-o", "/proc/none/x.brv"), 73)
        self.fails(self.pack("none", "-o", "x.brv"), 66, "none")

    def test_trees_and_links(self):
        self.write("blobs/aa", model())
        self.write("tree/snapshot/config.json", "{}")
        os.symlink("config.json", self.dir / "tree/snapshot/inside")
        self.good(self.pack("tree", "-o", "out"))
        self.assertEqual(os.readlink(self.dir / "out/snapshot/inside"), "config.json")
        os.symlink("../../blobs/aa", self.dir / "tree/snapshot/model.safetensors")
        run = self.pack("tree", "-o", "out2")
        self.assertEqual(run.code, 65)
        self.assertIn("--follow", run.err)
        self.good(self.pack("tree", "-o", "out3", "--follow"))
        self.assertEqual(self.good(self.brevis("cat", "out3/snapshot/model.safetensors.brv")).out, model())

    # A source is never written over, and no archive over another one of the same run, whatever --force says.
    def test_clashes(self):
        one, two = model(1), model(2)
        self.write("a/m.safetensors", one)
        self.write("b/m.safetensors", two)
        self.write("both/m.safetensors", one)
        self.fails(self.pack("a/m.safetensors", "-o", "a/m.safetensors", "--force"), 73, "a/m.safetensors", "source itself")
        os.symlink("m.safetensors", self.dir / "a/link")
        self.fails(self.pack("a/link", "-o", "a/m.safetensors", "--force"), 73, "source itself")
        self.assertEqual((self.dir / "a/m.safetensors").read_bytes(), one)
        self.fails(self.pack("a/m.safetensors", "b/m.safetensors", "-o", "out", "--force"), 73, "b/m.safetensors", "a/m.safetensors")
        self.assertEqual(self.good(self.brevis("cat", "out/m.safetensors.brv")).out, one)
        self.good(self.pack("b/m.safetensors", "-o", "both/m.safetensors.brv"))
        self.fails(self.pack("both", "-o", "out2", "--force"), 73, "m.safetensors.brv")
        self.assertEqual(self.good(self.brevis("cat", "out2/m.safetensors.brv")).out, one)
        self.fails(self.pack("both", "-o", "both/.", "--force"), 2, "source and target")

    def test_target_inside_the_source(self):
        self.write("tree/m.safetensors", model())
        self.good(self.pack("tree", "-o", "tree/packed"))
        self.good(self.pack("tree", "-o", "tree/packed", "--force"))
        self.assertEqual(os.listdir(self.dir / "tree/packed"), ["m.safetensors.brv"])

    # A message to a closed stderr must not land in the file that got its number.
    def test_closed_streams(self):
        data = safetensors([(f"t{i}", "U8", [1 << 20], random.Random(i).randbytes(1 << 20)) for i in range(4)])
        source = self.write("m.safetensors", data)
        for closed in (">&- 2>&-", "<&- >&- 2>&-", "<&- 2>&-", "2>&-"):
            subprocess.run(["sh", "-c", f'exec "$0" "$@" {closed}', BIN / "brevis-pack", "--progress", "always", "--force",
                            source, "-o", self.dir / "m.brv"], env=self.environment({}), timeout=60, check=False)
            self.good(self.brevis("fsck", "m.brv"))
            subprocess.run(["sh", "-c", f'exec "$0" "$@" {closed}', BIN / "brevis", "extract", "--progress", "always", "--force",
                            self.dir / "m.brv", "-o", self.dir / "back"], env=self.environment({}), timeout=60, check=False)
            self.assertEqual((self.dir / "back").read_bytes(), data)

    def test_file_size_limit(self):
        self.write("m.safetensors", model())
        run = self.pack("m.safetensors", "-o", "m.brv", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
        self.fails(run, 74, "m.brv")
        self.assertEqual(os.listdir(self.dir), ["m.safetensors"])

    def test_left_overs_are_not_packed(self):
        self.write("tree/m.safetensors", model())
        self.write("tree/m.safetensors.brv.tmp-abc012", os.urandom(70000))
        run = self.good(self.pack("tree"))
        self.assertIn("m.safetensors.brv.tmp-abc012: left behind", run.err)
        self.assertEqual(len(os.listdir(self.dir / "tree")), 3)

    def test_devices_are_not_replaced(self):
        self.write("m.safetensors", model())
        os.mkfifo(self.dir / "pipe")
        self.fails(self.pack("m.safetensors", "-o", "pipe", "--force"), 73, "no regular file")
        self.good(self.pack("m.safetensors"))
        self.fails(self.brevis("extract", "m.safetensors.brv", "-o", "pipe", "--force"), 73, "no regular file")
        self.assertTrue((self.dir / "pipe").is_fifo())

    def test_opaque_min(self):
        self.write("tree/big.bin", b"a" * 5000)
        self.good(self.pack("tree", "-o", "out"))
        self.assertEqual((self.dir / "out/big.bin").read_bytes(), b"a" * 5000)
        self.good(self.pack("tree", "-o", "out2", "--opaque-min", "4K"))
        self.assertEqual(self.good(self.brevis("cat", "out2/big.bin.brv")).out, b"a" * 5000)

    # Z05: the size is foretold for every dtype
    def test_dry_run_writes_nothing(self):
        alone = {d: safetensors([("a", d, [128, 96], weights(d, 128 * 96, i))]) for i, d in enumerate(("BF16", "F16", "F32", "F8_E4M3", "I8"))}
        for name, data in {"mixed": model(), **alone}.items():
            self.write(f"{name}.safetensors", data)
            planned = self.good(self.pack(f"{name}.safetensors", "-o", f"{name}.brv", "--dry-run", "--json")).json
            self.assertFalse((self.dir / f"{name}.brv").exists())
            self.good(self.pack(f"{name}.safetensors", "-o", f"{name}.brv"))
            self.assertEqual(planned["bytes_out"], (self.dir / f"{name}.brv").stat().st_size, name)

    # Z07: the exponents of every kind of float are taken, not of BF16 alone
    def test_floats_gain(self):
        source = random.Random(9)
        f64 = struct.pack("<20000d", *(source.gauss(0, 0.02) for _ in range(20000)))
        for dtype, most, data in (("BF16", 0.70, None), ("F16", 0.88, None), ("F32", 0.86, None), ("F64", 0.88, f64)):
            self.write("m.safetensors", safetensors([("a", dtype, [20000], data or weights(dtype, 20000, 1))]))
            one = self.good(self.pack("m.safetensors", "-o", "m.brv", "--force", "--json")).json
            self.assertLess(one["bytes_out"], most * one["bytes_in"], dtype)

    def test_options_that_change_the_archive(self):
        self.write("m.safetensors", model())
        self.good(self.pack("m.safetensors", "-o", "none.brv", "--digest", "none"))
        self.assertNotIn("sha256", self.brevis("ls", "--json", "none.brv").json)
        program = "merge(1, 8, 7; literal, literal, literal)"
        self.good(self.pack("--program", "BF16 = " + program, "m.safetensors", "-o", "p.brv", "--no-verify"))
        self.assertIn("merge(1, 8, 7; literal(", self.brevis("inspect", "p.brv", "embed.weight").text)
        self.assertEqual(self.brevis("cat", "p.brv").out, model())
        self.fails(self.pack("m.safetensors", "-o", "q.brv", "--program", "BF16 = nonsense"), 2, "BF16", "nonsense")
        self.fails(self.pack("m.safetensors", "-o", "q.brv", "--program", "BF17 = literal"), 2, "BF17")
        self.fails(self.pack("m.safetensors", "-o", "q.brv", "--frame-size", "2K"), 2, "frame")
        self.good(self.pack("m.safetensors", "-o", "f.brv", "--frame-size", "4KiB"))
        self.assertEqual(self.brevis("cat", "f.brv").out, model())

    def test_progress(self):
        self.write("m.safetensors", model())
        self.assertNotIn("\r", self.good(self.pack("m.safetensors", "-o", "a.brv")).err)
        self.assertNotIn("\r", self.good(self.pack("m.safetensors", "-o", "b.brv", "--progress", "never")).err)
        run = self.good(self.pack("m.safetensors", "-o", "c.brv", "--progress", "always", "--json"))
        self.assertEqual(run.json["schema"], 1)

    @unittest.skipUnless(os.geteuid() == 0, "mounts a small file system")
    def test_full_disk(self):
        small = self.dir / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=3", "tmpfs", str(small)], check=True)
        try:
            source = self.write("m.safetensors", safetensors([("a", "U8", [400000], random.Random(1).randbytes(400000))]))
            before = source.read_bytes()
            run = self.pack("m.safetensors", "-o", "small/m.brv")
            self.assertEqual(run.code, 74, run.err)
            self.assertIn("No space left", run.err)
            self.assertEqual(list(small.iterdir()), [])
            self.assertEqual(source.read_bytes(), before)
            self.good(self.pack("m.safetensors", "-o", "m.brv"))
            run = self.brevis("extract", "m.brv", "-o", "small/m")
            self.assertEqual(run.code, 74, run.err)
            self.assertEqual(list(small.iterdir()), [])
            # No room for a file at all: the third inode is of the directory's own.
            kept = [small / "one", small / "two"]
            for file in kept:
                file.touch()
            for run in (self.pack("m.safetensors", "-o", "small/m.brv"), self.brevis("extract", "m.brv", "-o", "small/m")):
                self.assertEqual(run.code, 73, run.err)
                self.assertIn("No space left", run.err)
                self.assertEqual(sorted(small.iterdir()), kept)
        finally:
            subprocess.run(["umount", str(small)], check=True)

    @unittest.skipUnless(os.geteuid() == 0, "becomes another user")
    def test_permission(self):
        self.dir.chmod(0o755)
        source = self.write("m.safetensors", model())
        (self.dir / "shut").mkdir(0o755)
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        self.fails(self.pack("m.safetensors", "-o", "shut/m.brv", **nobody), 77, "shut/m.brv")
        source.chmod(0o600)
        self.fails(self.pack("m.safetensors", "-o", "/tmp/none.brv", **nobody), 77, "m.safetensors")
        self.fails(self.brevis("ls", "m.safetensors", **nobody), 77, "m.safetensors")

    def interrupted(self, number, code):
        size = 48 << 20
        if not (self.dir / "m.safetensors").exists():
            self.write("m.safetensors", safetensors([("a", "F32", [size // 4], random.Random(1).randbytes(size))]))
        running = subprocess.Popen([str(BIN / "brevis-pack"), "m.safetensors", "-o", "m.brv", "-j", "1", "--progress", "always"],
                                   cwd=self.dir, env=self.environment({}), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        running.stderr.read(1)  # the first progress: work is under way
        running.send_signal(number)
        running.stderr.read()
        running.stderr.close()
        self.assertEqual(running.wait(timeout=60), code)
        self.assertEqual([p.name for p in self.dir.iterdir()], ["m.safetensors"])

    def test_signals(self):
        self.interrupted(signal.SIGINT, 130)
        self.interrupted(signal.SIGTERM, 143)
        self.interrupted(signal.SIGHUP, 129)


class Fsck(CliCase):
    @unittest.skipUnless(os.geteuid() == 0, "becomes another user")
    def test_what_may_not_be_read_is_no_damage(self):
        self.dir.chmod(0o755)
        _, archive = self.packed()
        archive.chmod(0o600)
        nobody = {"user": 65534, "group": 65534, "extra_groups": []}
        run = self.brevis("fsck", archive, "--json", **nobody)
        self.assertEqual((run.code, run.json["clean"], run.json["findings"][0]["severity"]), (77, True, "unread"))
        self.assertIn("1 not readable", self.brevis("fsck", self.dir, **nobody).text)
        self.write("bad.brv", b"nothing of ours")
        self.assertEqual(self.brevis("fsck", self.dir, **nobody).code, 1)  # damage outweighs it

    def test_a_tree_without_archives(self):
        self.write("tree/config.json", "{}")
        self.assertIn("no archive", self.good(self.brevis("fsck", "tree")).text)

    def interrupted_fsck(self, size):
        """Output and exit code of a check that was interrupted in a large archive; None when it ended before that."""
        self.write("m.safetensors", safetensors([("a", "F32", [size // 4], random.Random(1).randbytes(size))]))
        self.good(self.pack("m.safetensors", "-o", "z.brv", "-q", "--force"))
        running = subprocess.Popen([str(BIN / "brevis"), "fsck", ".", "-j", "1", "--progress", "always"], cwd=self.dir,
                                   env=self.environment({}), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        seen = b""
        while b"z.brv" not in seen and (byte := running.stderr.read(1)):
            seen += byte
        running.send_signal(signal.SIGINT)
        running.stderr.read()
        running.stderr.close()
        with running.stdout:
            out = running.stdout.read().decode()
        code = running.wait(timeout=60)
        return (out, code) if b"z.brv" in seen else None

    def test_an_interrupt_tells_what_was_found(self):
        damaged = bytearray(self.packed("a.safetensors")[1].read_bytes())
        damaged[len(damaged) // 2] ^= 1
        self.write("a.safetensors.brv", bytes(damaged))
        (self.dir / "a.safetensors").unlink()
        sizes = iter((48 << 20, 192 << 20, 768 << 20))  # until the machine is not too fast for it
        while (told := self.interrupted_fsck(next(sizes))) is None:
            pass
        out, code = told
        self.assertIn(code, (130, 1))
        self.assertIn("damage: ./a.safetensors.brv", out)
        if code == 130:
            self.assertIn("so far, stopped early", out)

    def test_clean(self):
        _, archive = self.packed()
        self.expect("fsck_clean", self.good(self.brevis("fsck", archive)).text)
        self.good(self.brevis("verify", archive, "--quick"))
        self.good(self.brevis("fsck", archive, "--tensor", "embed.weight"))
        self.assertTrue(self.good(self.brevis("fsck", "--json", archive)).json["clean"])
        self.assertEqual(self.good(self.brevis("fsck", "-q", archive)).out, b"")

    # I01: any flipped bit is found, and never served
    def test_flipped_bits(self):
        data, archive = self.packed()
        good = archive.read_bytes()
        source = random.Random(3)
        for at in [0, 9, 20, 63, len(good) - 1, len(good) - 20] + [source.randrange(len(good)) for _ in range(40)]:
            archive.write_bytes(flipped(good, at, 1 << source.randrange(8)))
            run = self.brevis("fsck", archive)
            self.assertEqual(run.code, 1, f"flip at {at}: {run.err}")
            served = self.brevis("cat", archive)
            self.assertTrue(served.code != 0 or served.out == data, f"flip at {at} served")

    def test_cut_archives(self):
        _, archive = self.packed()
        good = archive.read_bytes()
        for size in (0, 1, 31, 32, 63, 64, len(good) // 2, len(good) - 1):
            archive.write_bytes(good[:size])
            self.assertEqual(self.brevis("fsck", archive).code, 1, f"cut to {size}")

    def test_other_inputs(self):
        self.assertEqual(self.brevis("fsck", self.write("x", "text")).code, 1)
        self.fails(self.brevis("fsck", "none"), 66, "none")

    # A missing path is told before the others are checked: what was found in them would not be said.
    def test_missing_path_beside_others(self):
        self.packed()
        run = self.fails(self.brevis("fsck", "model.safetensors.brv", "nowhere", "--progress", "always"), 66, "nowhere")
        self.assertNotIn("model.safetensors.brv", run.err)

    # F26: an index that names what is not there
    def test_shard_index(self):
        self.write("tree/model-1.safetensors", safetensors([("a", "U8", [4], b"abcd")]))
        self.write("tree/model.safetensors.index.json", '{"weight_map":{"a":"model-1.safetensors","b":"model-2.safetensors"}}')
        self.good(self.pack("tree", "-o", "out"))
        run = self.brevis("fsck", "out")
        self.assertIn("model-2.safetensors", run.text)


class Extract(CliCase):
    def test_file(self):
        data, archive = self.packed()
        self.expect("extract_summary", self.good(self.brevis("extract", archive, "-o", "back")).text)
        self.assertEqual((self.dir / "back").read_bytes(), data)
        self.fails(self.brevis("extract", archive, "-o", "back"), 73, "back", "--force")
        self.good(self.brevis("extract", archive, "-o", "back", "--force", "--verify"))
        self.good(self.brevis("extract", archive, "-o", "tensor", "--tensor", "step"))
        self.assertEqual((self.dir / "tensor").read_bytes(), b"\7")

    def test_tree(self):
        self.write("tree/sub/a.safetensors", model(1))
        self.write("tree/b.safetensors", model(2))
        self.write("tree/config.json", "{}")
        self.write("tree/big.bin", random.Random(2).randbytes(100000))
        words = "".join(f'"{random.Random(i).getrandbits(40):x}": {i},\n' for i in range(20000))
        self.write("tree/vocab.json", words)
        os.symlink("config.json", self.dir / "tree/link")
        self.good(self.pack("tree", "-o", "out"))
        self.assertLess((self.dir / "out/vocab.json.brv").stat().st_size, 20000 * 7)  # five bytes a word are random
        self.assertIn("literal(text)", self.good(self.brevis("inspect", "out/vocab.json.brv")).text)
        document = self.good(self.brevis("extract", "out", "-o", "back", "--json")).json
        self.assertEqual(document["exit_code"], 0)
        self.assertEqual(subprocess.run(["diff", "-r", "tree", "back"], cwd=self.dir, check=False).returncode, 0)
        self.assertEqual(os.readlink(self.dir / "back/link"), "config.json")

    def test_damage(self):
        _, archive = self.packed()
        good = archive.read_bytes()
        archive.write_bytes(flipped(good, len(good) // 3))
        self.fails(self.brevis("extract", archive, "-o", "back"), 65, "model.safetensors.brv")
        self.assertFalse((self.dir / "back").exists())
        (self.dir / "tree").mkdir()
        shutil.copy(archive, self.dir / "tree/bad.safetensors.brv")
        (self.dir / "tree/good.safetensors.brv").write_bytes(good)
        self.fails(self.brevis("extract", "tree", "-o", "back", "--continue-on-error"), 65, "bad.safetensors")
        self.assertEqual([p.name for p in (self.dir / "back").iterdir()], ["good.safetensors"])

    def test_bad_inputs(self):
        _, archive = self.packed()
        self.fails(self.brevis("extract", archive), 2, "--output")
        self.fails(self.brevis("extract", self.dir / "model.safetensors", "-o", "x"), 65, "safetensors")
        self.fails(self.brevis("extract", "none", "-o", "x"), 66, "none")
        self.fails(self.brevis("extract", archive, "-o", "x", "--tensor", "none"), 66, "none")


if __name__ == "__main__":
    main()
