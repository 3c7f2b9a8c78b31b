# SPDX-License-Identifier: Apache-2.0
"""What the tests of command lines share: a folder of its own for each test, seeded files, runs of the built programs.

The programs are named by BREVIS_PROGRAM_DIR. Output that people read is compared with a file of expect/: NAME.exact byte
for byte, NAME.glob line by line with * and ?. BREVIS_ACCEPT=1 writes an expected file that is missing, as .exact.
"""
import fnmatch
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import unittest

BIN = pathlib.Path(os.environ["BREVIS_PROGRAM_DIR"])
EXPECT = pathlib.Path(__file__).resolve().parent / "expect"
LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 9876543210\n"
WIDTH = {"U8": 1, "BF16": 2, "F16": 2, "F32": 4, "F8_E4M3": 1}


def weights(dtype, count, seed):
    """Bytes that look like trained weights: normal, small, of the given dtype."""
    source = random.Random(seed)
    words = [source.gauss(0, 0.02) for _ in range(count)]
    if dtype == "F32":
        return struct.pack(f"<{count}f", *words)
    if dtype == "F16":
        return struct.pack(f"<{count}e", *words)
    if dtype == "BF16":
        return b"".join(struct.pack("<f", w)[2:] for w in words)
    return bytes(source.choice(b"\0\1\2\3\4\5\6\7") for _ in range(count * WIDTH.get(dtype, 1)))


def safetensors(tensors, metadata=None, pad=True):
    """A file of [(name, dtype, shape, bytes)]."""
    header, at = {}, 0
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, data in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8 if pad else 0)
    return raw(text, b"".join(t[3] for t in tensors))


def raw(header, data=b""):
    if isinstance(header, str):
        header = header.encode()
    return struct.pack("<Q", len(header)) + header + data


def scan(file):
    """The header as a scanner sees it."""
    (length,) = struct.unpack_from("<Q", file)
    return json.loads(file[8:8 + length])


def model(seed=1):
    """A small model of several dtypes."""
    return safetensors(
        [("embed.weight", "BF16", [96, 64], weights("BF16", 96 * 64, seed)),
         ("layers.0.weight", "BF16", [64, 64], weights("BF16", 64 * 64, seed + 1)),
         ("layers.0.bias", "F32", [64], weights("F32", 64, seed + 2)),
         ("layers.1.weight", "F16", [64, 32], weights("F16", 64 * 32, seed + 3)),
         ("empty", "F32", [0, 4], b""),
         ("step", "U8", [], b"\7"),
         ("tied.weight", "BF16", [96, 64], weights("BF16", 96 * 64, seed))],
        {"format": "pt"})


class Run:
    def __init__(self, done):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr.decode(errors="replace")

    @property
    def text(self):
        return self.out.decode()

    @property
    def json(self):
        return json.loads(self.out)


class CliCase(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="brevis-cli-"))
        self.addCleanup(shutil.rmtree, self.dir, ignore_errors=True)

    def write(self, name, data):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    def environment(self, more):
        env = {k: v for k, v in os.environ.items() if not k.startswith("BREVIS_")}
        return {**env, "LC_ALL": "C.UTF-8", **more}

    def run_program(self, program, *args, env=None, stdout=subprocess.PIPE, **more):
        """The program in the test's folder; it must never die of a signal by itself."""
        done = subprocess.run([str(BIN / program), *map(str, args)], cwd=self.dir, env=self.environment(env or {}),
                              stdin=subprocess.DEVNULL, stdout=stdout, stderr=subprocess.PIPE, timeout=120, **more)
        run = Run(done)
        self.assertGreaterEqual(run.code, 0, f"{program} {args} died: {run.err}")
        return run

    def brevis(self, *args, **more):
        return self.run_program("brevis", *args, **more)

    def pack(self, *args, **more):
        return self.run_program("brevis-pack", *args, **more)

    def good(self, run):
        self.assertEqual(run.code, 0, run.err or run.out)
        return run

    def fails(self, run, code, *words):
        self.assertEqual(run.code, code, run.err or run.out)
        for word in words:
            self.assertIn(word, run.err)
        return run

    def packed(self, name="model.safetensors", data=None):
        """A packed file: its bytes and the archive's path."""
        data = model() if data is None else data
        source = self.write(name, data)
        self.good(self.pack(source, "-o", self.dir / (name + ".brv"), "-q"))
        return data, self.dir / (name + ".brv")

    def expect(self, name, text):
        exact, glob = EXPECT / (name + ".exact"), EXPECT / (name + ".glob")
        if not exact.exists() and not glob.exists() and os.environ.get("BREVIS_ACCEPT"):
            exact.write_text(text)
        if exact.exists():
            self.assertEqual(text, exact.read_text())
            return
        lines, patterns = text.splitlines(), glob.read_text().splitlines()
        for line, pattern in zip(lines, patterns):
            # Brackets of shapes are meant as they are.
            self.assertTrue(fnmatch.fnmatchcase(line, pattern.replace("[", "[[]")), f"{line!r} is not {pattern!r}")
        self.assertEqual(len(lines), len(patterns), text)


def main():
    unittest.main(verbosity=2)
