# SPDX-License-Identifier: Apache-2.0
"""The Python module against the plain file: every dtype, ranges, threads, failures, torch.
test_python.py MODULE_FOLDER HARNESS_FOLDER   (BREVIS_LIBRARY names the library)"""
import concurrent.futures
import os
import pathlib
import random
import struct
import sys
import tempfile

sys.path[:0] = sys.argv[1:3]
import brevis
import harness
import numpy

DTYPES = {"BF16": 2, "F16": 2, "F32": 4, "U8": 1, "I8": 1, "F64": 8, "I64": 8, "BOOL": 1, "F8_E4M3": 1, "C64": 8, "I16": 2}
folder = pathlib.Path(tempfile.mkdtemp(prefix="brevis-library."))


def tensors():
    out = []
    for i, (dtype, width) in enumerate(DTYPES.items()):
        count = 6 * 700
        data = harness.weights(dtype, count, i) if dtype in ("BF16", "F16", "F32") else bytes(
            b % 2 if dtype == "BOOL" else b for b in os.urandom(count * width))
        out.append((f"{dtype}.weight", dtype, [6, 700], data))
    big = harness.weights("BF16", 10 << 20, 99)  # more than one piece for the threads of a read
    return out + [("big", "BF16", [10, 1 << 20], big), ("scalar", "F32", [], b"\0\0\x80\x3f"),
                  ("none", "F32", [0, 3], b""), ("twin", "BF16", [10, 1 << 20], big)]


SOME = tensors()
PLAIN, PACKED = folder / "m.safetensors", folder / "m.brv"
PLAIN.write_bytes(harness.safetensors(SOME, {"format": "pt", "ünï": "códe"}))


def refused(kind, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except brevis.Error as e:
        assert e.kind == kind and str(e), (e.kind, str(e))
        return e
    raise AssertionError(f"{call} succeeded")


def case_pack_and_check():
    files, before, after = brevis.pack(PLAIN, PACKED)
    assert (files, before, after) == (1, PLAIN.stat().st_size, PACKED.stat().st_size)
    assert brevis.is_archive(PACKED) and not brevis.is_archive(PLAIN)
    assert [f for f in brevis.check(PACKED) if f[0] == "damage"] == []
    refused("invalid_argument", brevis.pack, PLAIN, PACKED)  # exists
    brevis.pack(PLAIN, PACKED, force=True, jobs=1)
    refused("not_found", brevis.pack, folder / "nothing", folder / "x.brv")


def case_whole_file():
    with brevis.open(PACKED) as archive:
        data = PLAIN.read_bytes()
        assert archive.size == len(data) and archive.read() == data
        for offset, length in ((0, 8), (5, 0), (len(data) - 3, 3), (len(data), 0), (12345, 1 << 20)):
            assert archive.read(offset, length) == data[offset:offset + length]
        refused("invalid_argument", archive.read, len(data), 1)
        refused("invalid_argument", archive.read, 2**63, 2**40 - 2**40 + 1)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            ranges = [(i * 700001 % (len(data) - 70000), 70000) for i in range(64)]
            for (a, n), got in zip(ranges, pool.map(lambda r: archive.read(*r), ranges)):
                assert got == data[a:a + n]
        into = bytearray(100)
        assert archive.readinto(1000, memoryview(into)[10:20]) == 10 and into[10:20] == data[1000:1010] and not any(into[20:])
        try:
            archive.readinto(0, bytes(8))
        except TypeError:
            pass
        else:
            raise AssertionError("wrote into constant bytes")
    try:
        archive.read(0, 1)
    except ValueError:
        return
    raise AssertionError("read from a closed archive")


# S14: weights without a mount
def case_tensors():
    with brevis.open(PACKED) as archive:
        assert sorted(archive.keys()) == sorted(t[0] for t in SOME) and len(archive) == len(SOME)
        assert archive.metadata() == {"format": "pt", "ünï": "códe"}
        for name, dtype, shape, data in SOME:
            said = archive.tensor(name)
            assert (said.dtype, list(said.shape), said.bytes) == (dtype, shape, len(data)), said
            array = archive[name]
            assert list(array.shape) == shape and array.tobytes() == data, name
        assert archive["F32.weight"].dtype == numpy.float32 and archive["BF16.weight"].dtype == numpy.uint16
        assert sum(archive.tensor(n).duplicate for n in ("big", "twin")) == 1
        part = archive.numpy("big", rows=(3, 5))
        assert part.shape == (2, 1 << 20) and part.tobytes() == SOME[-4][3][3 << 21:5 << 21]
        assert archive.numpy("big", rows=(4, 4)).shape == (0, 1 << 20)
        try:
            archive.numpy("big", rows=(9, 11))
        except IndexError:
            pass
        else:
            raise AssertionError("rows beyond the tensor")
        assert "nothing" not in archive
    assert brevis.load_file(PACKED)["scalar"].item() == 1.0


def case_torch():
    import torch
    loaded = brevis.load_file(PACKED, "pt")
    for name, dtype, shape, data in SOME:
        if dtype == "F8_E4M3" and not hasattr(torch, "float8_e4m3fn"):
            continue
        assert list(loaded[name].shape) == shape
        raw = loaded[name].reshape(-1).view(torch.uint8) if len(data) and shape else None
        assert raw is None or bytes(raw.numpy()) == data, name
    with brevis.safe_open(PACKED, framework="pt") as file:
        assert file.keys() == sorted(t[0] for t in SOME) and file.metadata()["format"] == "pt"
        assert file.get_tensor("BF16.weight").dtype == torch.bfloat16
        part = file.get_slice("big")
        assert part.get_shape() == [10, 1 << 20] and part.get_dtype() == "BF16"
        assert torch.equal(part[2:4, 5:9], loaded["big"][2:4, 5:9]) and torch.equal(part[:, 7], loaded["big"][:, 7])
        assert torch.equal(part[...], loaded["big"]) and torch.equal(part[-1:], loaded["big"][-1:])


# load_file without float8 where torch has none: skip what it cannot hold, tell it as unsupported
def case_unknown_dtype():
    odd = folder / "odd.safetensors"
    odd.write_bytes(harness.safetensors([("x", "F4", [4], b"ab")]))
    brevis.pack(odd, folder / "odd.brv")
    with brevis.open(folder / "odd.brv") as archive:
        refused("unsupported", archive.numpy, "x")
        assert archive.read(archive.tensor("x").offset, 2) == b"ab"


def case_other_files():
    plain = folder / "words.bin"
    plain.write_bytes(struct.pack("<9000I", *range(9000)))
    brevis.pack(plain, folder / "words.brv")
    with brevis.open(folder / "words.brv") as archive:
        assert archive.keys() == [] and archive.read() == plain.read_bytes()


# I01: damage is an error of what it touches, and of the check
def case_damage():
    bad = folder / "bad.brv"
    data = bytearray(PACKED.read_bytes())
    data[len(data) // 2] ^= 4
    bad.write_bytes(data)
    assert refused("corrupt", brevis.check, bad).findings
    with brevis.open(bad) as archive:
        refused("corrupt", archive.read)
        assert archive.read(0, 8) == PLAIN.read_bytes()[:8]
    bad.write_bytes(data[:50])
    refused("truncated", brevis.open, bad)
    refused("not_found", brevis.open, PLAIN)
    assert refused("not_found", brevis.open, folder / "nothing").errno == 2


# I01: a thousand flipped bits over three archives: each found, none served
def case_thousand_flips():
    chance = random.Random(1000)
    small = folder / "flips"
    archives = []
    for i, (dtype, count) in enumerate((("BF16", 9000), ("F32", 4000), ("F16", 300))):
        plain = small.with_name(f"flips-{i}.safetensors")
        tensors = [(f"t{j}", dtype, [count >> j], harness.weights(dtype, count >> j, j)) for j in range(6)]
        plain.write_bytes(harness.safetensors(tensors, {"format": "pt"}))
        brevis.pack(plain, small)
        archives.append(small.read_bytes())
        small.unlink()
    for n in range(1000):
        bad = bytearray(archives[n % 3])
        bit = chance.randrange(8 * len(bad))
        bad[bit // 8] ^= 1 << bit % 8
        small.write_bytes(bad)
        for call in (brevis.check, lambda path: brevis.open(path).read()):
            try:
                call(small)
            except brevis.Error:
                continue
            raise AssertionError(f"archive {n % 3}, bit {bit}: not seen")


if not hasattr(__import__("torch"), "float8_e4m3fn"):
    SOME = [t for t in SOME if t[1] != "F8_E4M3"]
    PLAIN.write_bytes(harness.safetensors(SOME, {"format": "pt", "ünï": "códe"}))
for name, case in list(globals().items()):
    if name.startswith("case_"):
        case()
        print("ok", name)
import shutil
shutil.rmtree(folder)
