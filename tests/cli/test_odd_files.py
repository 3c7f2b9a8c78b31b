# SPDX-License-Identifier: Apache-2.0
"""Files as users really have them: what brevis-pack says of each, and that what it packs comes back byte for byte.

test_odd_files.py HARNESS_FOLDER, with BREVIS_PACK and BREVIS_TOOL in the environment.
"""
import json
import struct
import subprocess
import sys

sys.path.insert(0, sys.argv.pop(1))
import harness  # noqa: E402
from harness import PACK, TOOL, WORK, expect, expect_equal, weights  # noqa: E402

BAD = 65
DTYPES = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
          "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32,
          "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64}


def raw(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def tensor(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def run(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, timeout=120, check=False)
    expect(done.returncode >= 0 and done.returncode != 70, f"{arguments} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def check(name, data, says="", strict=0, alone=0):
    """Packs `data` as NAME.safetensors: exit codes with and without --strict, a word of the message; then reads it back."""
    folder = WORK / "odd" / name
    folder.mkdir(parents=True)
    plain, archive = folder / f"{name}.safetensors", folder / "out.brv"
    plain.write_bytes(data)
    code, _, errors = run(PACK, "--strict", "--progress", "never", plain, "-o", folder / "strict.brv")
    expect_equal(code, strict, f"{name} --strict: {errors}")
    expect(not strict or says in errors, f"{name} --strict says {errors!r}, not {says!r}")
    expect_equal((folder / "strict.brv").exists(), strict == 0, f"{name}: an archive under --strict")
    code, _, errors = run(PACK, "--progress", "never", plain, "-o", archive)
    expect_equal(code, alone, f"{name}: {errors}")
    expect(says in errors, f"{name} says {errors!r}, not {says!r}")
    if alone:
        expect(not archive.exists(), f"{name}: an archive of a refused file")
        return None
    comes_back(name, archive, data)
    expect_equal(plain.read_bytes(), data, f"{name}: the source")
    return archive


def comes_back(name, archive, data):
    code, output, errors = run(TOOL, "cat", archive)
    expect_equal(code, 0, f"cat {name}: {errors}")
    expect_equal(output, data, f"cat {name}")
    code, output, errors = run(TOOL, "fsck", archive)
    expect_equal(code, 0, f"fsck {name}: {errors}")
    restored = archive.with_name("restored")
    code, _, errors = run(TOOL, "extract", archive, "-o", restored, "--verify")
    expect_equal(code, 0, f"extract {name}: {errors}")
    expect_equal(restored.read_bytes(), data, f"extract {name}")


def rows_of(path):
    code, output, errors = run(TOOL, "ls", "--json", path)
    expect_equal(code, 0, f"ls {path}: {errors}")
    return json.loads(output)


def case_duplicates():
    # F02: one span under one name, twice
    check("twice", raw(b'{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"a":{"dtype":"U8","shape":[2],'
                       b'"data_offsets":[0,2]}}', b"xy"), "'a'", strict=BAD)
    # F03: readers differ on which of two counts
    first, second = (b'"a":{"dtype":"U8","shape":[%d],"data_offsets":[%d,%d]}' % s for s in ((1, 0, 1), (2, 1, 3)))
    for name, order in (("ab", (first, second)), ("ba", (second, first))):
        check("duplicate-" + name, raw(b"{" + b",".join(order) + b"}", b"xyz"), "duplicate", strict=BAD)


def case_metadata():
    # F04: a number where a string belongs
    check("number", raw({"__metadata__": {"n": 0}}), "'n'", strict=BAD)
    # F06: empty and null are fine
    check("empty-metadata", raw({"__metadata__": {}, "a": tensor("U8", [1], 0, 1)}, b"x"))
    check("null-metadata", raw({"__metadata__": None, "a": tensor("U8", [1], 0, 1)}, b"x"))
    # F07: metadata and nothing else; and the text an old writer made of it
    check("only-metadata", raw({"__metadata__": {"format": "pt"}}))
    check("malformed", raw(b'{},"__metadata__":{"format":"pt"}}'), "not", strict=BAD, alone=BAD)
    # F23: braces, quotes and backslashes in a large value
    check("braces", raw({"__metadata__": {"k": '}{"\\' * 250_000}, "a": tensor("U8", [3], 0, 3)}, b"xyz"))
    # F29: nothing is added or taken away
    check("no-metadata", raw({"a": tensor("U8", [3], 0, 3)}, b"xyz"))


def case_shapes():
    # F08: tensors without elements, three at one offset and at the end
    archive = check("empty", raw({"a": tensor("F32", [0], 0, 0), "b": tensor("F32", [2, 0], 0, 0), "c": tensor("U8", [4], 0, 4),
                                  "d": tensor("F8_E4M3", [0, 5], 4, 4)}, b"abcd"))
    code, output, _ = run(TOOL, "cat", archive, "--tensor", "d")
    expect_equal((code, output), (0, b""), "the bytes of an empty tensor")
    # F09: a scalar
    check("scalar", raw({"a": tensor("I32", [], 0, 4)}, b"abcd"))
    # F10: names in an order of their own
    check("order", raw({n: tensor("U8", [2], 8 - 2 * i, 10 - 2 * i) for i, n in enumerate("abcde")}, b"0123456789"))
    # F14: nothing is aligned
    header = raw({"odd": tensor("U8", [3], 0, 3), "f": tensor("F32", [40_000], 3, 160_003)})
    header = raw(header[8:] + b" " * ((1 - (len(header) - 8)) % 8))
    check("unaligned", header + b"abc" + weights("F32", 40_000, 1))
    # F17: a shape that says more than the span holds
    check("large-shape", raw({"a": tensor("F32", [1000, 1000], 0, 4)}, b"abcd"), "'a'", strict=BAD)
    # F18: and one that says less
    check("small-shape", raw({"a": tensor("F32", [1], 0, 8)}, b"abcdefgh"), "'a'", strict=BAD)


def case_dtypes():
    # F20: all of them, in one file
    header, data = {}, b""
    for i, (dtype, bits) in enumerate(DTYPES.items()):
        part = weights("U8", 3 * bits * 100 // 8, i)
        header[dtype.lower()] = tensor(dtype, [3, 100], len(data), len(data) + len(part))
        data += part
    check("dtypes", raw(header, data))
    # F21: one that is not known yet
    check("unknown", raw({"a": tensor("F7_E9", [3], 0, 3)}, b"xyz"), "dtype", strict=BAD)
    # F16: unknown and out of all bounds
    check("bounds", raw(b'{"a":{"dtype":"Q9","shape":[18446744073709551615],"data_offsets":[18446744073709551615,'
                        b'18446744073709551615]}}', b"xyz"), "'a'", strict=BAD)


def case_tails():
    good = raw({"a": tensor("BF16", [2000], 0, 4000)}, weights("BF16", 2000, 3))
    # F12: stray bytes at the end
    archive = check("tail", good + bytes.fromhex("09072f00"), "4 ", strict=BAD)
    code, output, errors = run(TOOL, "fsck", "-v", archive)
    expect("4 trailing bytes" in output.decode() + errors, f"fsck says {output} {errors}")
    # F13: a download that stopped
    header = 8 + struct.unpack("<Q", good[:8])[0]
    for cut in (0, 7, 8, 9, header - 1, header, header + 1, len(good) - 1):
        name = f"cut-{cut}"
        missing = "" if cut < 9 else f"{len(good) - cut} bytes short" if cut >= header else "short"
        check(name, good[:cut], missing, strict=BAD, alone=BAD)
        if cut >= header:
            plain = WORK / "odd" / name / f"{name}.safetensors"
            code, _, errors = run(PACK, "--allow-truncated", "--progress", "never", plain, "-o", plain.with_name("kept.brv"))
            expect_equal(code, 0, errors)
            comes_back(name, plain.with_name("kept.brv"), good[:cut])


def case_other_files():
    # F30: what it is instead
    for name, data, word in (("lfs", b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4" * 64 + b"\nsize 12\n", "LFS"),
                             ("zip", b"PK\x03\x04" + bytes(300), "zip"), ("pickle", b"\x80\x02}q\x00." + bytes(300), "pickle"),
                             ("html", b"<!DOCTYPE html><html><body>404</body></html>", "HTML"),
                             ("gguf", b"GGUF\x03\x00\x00\x00" + bytes(300), "GGUF"), ("none", b"", "empty")):
        check(name, data, word, strict=BAD, alone=BAD)


def case_directory():
    # F31: the files of a tree keep their names, and its index its bytes
    source, packed, restored = (WORK / "tree" / n for n in ("source", "packed", "restored"))
    (source / "sub").mkdir(parents=True)
    files = {"model-00001-of-00002.safetensors": raw({"a": tensor("BF16", [9000], 0, 18000)}, weights("BF16", 9000, 1)),
             "sub/model-00002-of-00002.safetensors": raw({"b": tensor("F16", [9000], 0, 18000)}, weights("F16", 9000, 2)),
             "model.safetensors.index.json": b'{"weight_map": {"a": "model-00001-of-00002.safetensors"}}\r\n',
             "config.json": b"{}\n", "broken.safetensors": b"<html>404</html>", "empty": b""}
    for name, data in files.items():
        (source / name).write_bytes(data)
    code, _, errors = run(PACK, "--progress", "never", source, "-o", packed)
    expect(code == 0 and "HTML" in errors, f"{code}: {errors}")
    code, _, errors = run(TOOL, "extract", packed, "-o", restored)
    expect_equal(code, 0, errors)
    found = {str(p.relative_to(restored)): p.read_bytes() for p in restored.rglob("*") if p.is_file()}
    expect_equal(found, files, "the tree")


def case_listing():
    # I08: a scanner sees in the archive what a loader sees in the file
    plain = WORK / "listing.safetensors"
    plain.write_bytes(raw({"__metadata__": {"format": "pt", "note": "a\"b"}, "\u00e9": tensor("BF16", [100, 50], 0, 10_000),
                           "b.c": tensor("F32", [], 10_000, 10_004), "none": tensor("I8", [0], 10_004, 10_004)},
                          weights("BF16", 5000, 1) + b"abcd"))
    harness.pack(plain, WORK / "listing.brv")
    there, here = rows_of(WORK / "listing.brv"), rows_of(plain)
    keys = ("name", "dtype", "shape", "bytes")
    expect_equal([[t[k] for k in keys] for t in there["tensors"]], [[t[k] for k in keys] for t in here["tensors"]], "tensors")
    expect_equal(len(there["tensors"]), 3, "tensors")
    expect_equal(there.get("metadata"), here.get("metadata"), "metadata")


if __name__ == "__main__":
    harness.run(globals(), fuse=False)
