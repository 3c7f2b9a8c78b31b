# SPDX-License-Identifier: Apache-2.0
"""Large files: long headers, many tensors, offsets beyond 32 bits, and memory that does not grow with them.

test_large.py HARNESS_FOLDER, with BREVIS_PACK, BREVIS_TOOL and BREVIS_MOUNT in the environment.
"""
import hashlib
import json
import os
import struct
import subprocess
import sys
import time

sys.path.insert(0, sys.argv.pop(1))
import harness  # noqa: E402
from harness import MIB, PACK, TOOL, WORK, Mount, expect, expect_equal, weights  # noqa: E402

GIB = 1 << 30


def pack(plain, archive, *options):
    """(exit code, errors, seconds, most resident bytes) of a run."""
    began = time.monotonic()
    child = subprocess.Popen([PACK, "-q", "--progress", "never", "--force", *options, plain, "-o", archive], stderr=subprocess.PIPE)
    errors = child.stderr.read().decode(errors="replace")
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, errors, time.monotonic() - began, used.ru_maxrss * 1024


def digest_of(command_or_path):
    sha = hashlib.sha256()
    if isinstance(command_or_path, list):
        with subprocess.Popen(command_or_path, stdout=subprocess.PIPE) as child:
            while part := child.stdout.read(MIB):
                sha.update(part)
        expect_equal(child.returncode, 0, f"{command_or_path}")
    else:
        with open(command_or_path, "rb") as file:
            while part := file.read(MIB):
                sha.update(part)
    return sha.hexdigest()


def case_long_header():
    # F01: the longest header the reference reads, and one byte more
    for size, strict in ((100_000_000, 0), (100_000_001, 65)):
        head = b'{"__metadata__":{"pad":"'
        tail = b'"},"a":{"dtype":"U8","shape":[5],"data_offsets":[0,5]}}'
        plain, archive = WORK / f"header-{size}", WORK / f"header-{size}.brv"
        plain.write_bytes(struct.pack("<Q", size) + head + b"x" * (size - len(head) - len(tail)) + tail + b"12345")
        code, errors, _, _ = pack(plain, archive, "--strict")
        expect_equal(code, strict, errors)
        expect(strict == 0 or "100000000" in errors.replace(",", ""), f"the limit is not named: {errors}")
        code, errors, _, _ = pack(plain, archive)
        expect_equal(code, 0, errors)
        expect_equal(digest_of([TOOL, "cat", archive]), digest_of(plain), f"header of {size}")
        plain.unlink()
        archive.unlink()


def many_tensors(path, count):
    data = weights("BF16", 512 * 1000, count)
    header = {f"model.layers.{i}.weight": {"dtype": "BF16", "shape": [512], "data_offsets": [1024 * i, 1024 * (i + 1)]}
              for i in range(count)}
    text = json.dumps(header, separators=(",", ":")).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for i in range(count // 1000):
            out.write(data[2 * i:] + data[:2 * i])


def case_many_tensors():
    # F25: time in proportion, little overhead, a quick first read
    seconds = {}
    for count in (25_000, 50_000, 100_000):
        plain, folder = WORK / f"many-{count}", WORK / f"many-{count}.packed"
        many_tensors(plain, count)
        folder.mkdir()
        code, errors, seconds[count], _ = pack(plain, folder / "m.brv")
        expect_equal(code, 0, errors)
    print(f"      seconds by tensors: { {c: round(s, 2) for c, s in seconds.items()} }")
    # Proportion would be 2; a wide margin, since the machine has other things to do.
    expect(seconds[100_000] < 3.5 * seconds[50_000] + 1, f"not in proportion: {seconds}")
    expect_equal(digest_of([TOOL, "cat", folder / "m.brv"]), digest_of(plain), "100,000 tensors")
    # What the same words cost as one tensor, and what each tensor adds to that.
    whole = plain.with_name("whole")
    size = os.path.getsize(plain) - 8 - struct.unpack("<Q", plain.open("rb").read(8))[0]
    text = json.dumps({"a": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
    with open(plain, "rb") as source, open(whole, "wb") as out:
        source.seek(-size, os.SEEK_END)
        out.write(struct.pack("<Q", len(text)) + text)
        while part := source.read(MIB):
            out.write(part)
    code, errors, _, _ = pack(whole, WORK / "whole.brv")
    expect_equal(code, 0, errors)
    each = (os.path.getsize(folder / "m.brv") - os.path.getsize(WORK / "whole.brv")) / 100_000
    print(f"      {each:.1f} bytes a tensor, its name and header entry included")
    expect(each <= 64, f"{each} bytes a tensor")
    with Mount(folder, WORK / "mnt") as mount:
        began = time.monotonic()
        with open(mount.at / "m", "rb") as file:
            file.seek(50 * MIB)
            got = file.read(4096)
        expect(time.monotonic() - began < 5, "the first read took 5 s")
        with open(plain, "rb") as file:
            file.seek(50 * MIB)
            expect_equal(got, file.read(4096), "bytes in the middle")


def sparse_file(path, size, islands):
    """One U8 tensor of zeros with some bytes at the offsets named; takes no room on the disk."""
    text = json.dumps({"a": {"dtype": "BF16", "shape": [size // 2], "data_offsets": [0, size]}}).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        out.truncate(8 + len(text) + size)
        for at in islands:
            out.seek(at)
            out.write(weights("BF16", 50_000, at))


def case_beyond_4_gib():
    # F27: a tensor across 2^31 and 2^32
    # D03: memory does not grow with the file
    edges = (2 * GIB - 1001, 4 * GIB - 1001)
    most = {}
    for size in (GIB // 4, 5 * GIB):
        folder = WORK / f"large-{size}"
        folder.mkdir()
        plain = WORK / "large"
        sparse_file(plain, size, [e for e in edges if e < size] or [MIB + 1])
        code, errors, seconds, most[size] = pack(plain, folder / "l.brv", "--memory", "128MiB", "--jobs", "2")
        expect_equal(code, 0, errors)
        print(f"      {size >> 20} MiB in {seconds:.1f} s, {most[size] >> 20} MiB resident")
    if not harness.sanitized():
        expect(max(most.values()) <= (128 + 96) * MIB, f"resident: {most}")
        expect(most[5 * GIB] <= most[GIB // 4] + 32 * MIB, f"memory grows with the file: {most}")
    with open(plain, "rb") as file, Mount(folder, WORK / "mnt", ["--memory", "32MiB"]) as mount:
        with open(mount.at / "l", "rb") as shown:
            expect_equal(os.fstat(shown.fileno()).st_size, os.fstat(file.fileno()).st_size, "size")
            for edge in (*edges, 2 * GIB, 4 * GIB):
                for at in (edge - 5000, edge - 1, edge, edge + 90_000):
                    expect_equal(os.pread(shown.fileno(), 20_000, at), os.pread(file.fileno(), 20_000, at), f"bytes at {at}")
    code = subprocess.run([TOOL, "cat", folder / "l.brv", "--offset", str(4 * GIB - 900), "--length", "2000"],
                          capture_output=True, check=False, timeout=60)
    with open(plain, "rb") as file:
        expect_equal(code.stdout, os.pread(file.fileno(), 2000, 4 * GIB - 900), "cat across 2^32")


def case_flat_memory():
    # Z06: no size at which anything overflows or must be held whole
    # D03: memory for weights, of which every frame is coded, is a matter of frames in flight and not of the tensor
    block = weights("BF16", MIB // 2, 3)
    plain, archive = WORK / "flat", WORK / "flat.brv"
    most = {}
    for size in (64, 512):
        text = json.dumps({"a": {"dtype": "BF16", "shape": [size * MIB // 2], "data_offsets": [0, size * MIB]}}).encode()
        with open(plain, "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for i in range(size):
                turn = 2 * (i * 7919 % (MIB // 2))
                out.write(block[turn:] + block[:turn])
        code, errors, seconds, most[size] = pack(plain, archive, "--jobs", "2")
        expect_equal(code, 0, errors)
        expect(os.path.getsize(archive) < 0.75 * size * MIB, "these are no weights any more")
        print(f"      {size} MiB in {seconds:.1f} s, {most[size] >> 20} MiB resident")
    expect_equal(digest_of([TOOL, "cat", archive]), digest_of(plain), "weights of 512 MiB")
    if not harness.sanitized():
        expect(most[512] <= most[64] + 32 * MIB, f"memory grows with the tensor: {most}")
        expect(most[512] <= 512 * MIB, f"resident: {most}")


if __name__ == "__main__":
    harness.run(globals())
