# SPDX-License-Identifier: Apache-2.0
"""The reference reader gives the originals of all goldens, in any range, refuses what must be refused, and finds every
flipped bit; and it reads what the packer writes today.  test_archives.py GOLDEN_FOLDER BREVIS_PACK"""
import hashlib
import pathlib
import random
import re
import subprocess
import sys
import tempfile

import brevis_archive
import brevis_codecs
import brevis_operators
from brevis_archive import Archive, Corrupt, NotAnArchive, Truncated, Unsupported

golden, packer = pathlib.Path(sys.argv[1]), sys.argv[2]
KINDS = {"corrupt": Corrupt, "truncated": Truncated, "unsupported": Unsupported, "not_found": NotAnArchive}
chance = random.Random(7)


def ranges(archive, data):
    for _ in range(12):
        a = chance.randrange(len(data) + 1)
        n = min(chance.choice((0, 1, 7, 900)), len(data) - a)
        assert archive.read(a, n) == data[a:a + n], f"range {a} + {n}"


def all_goldens():
    operators = set()
    for line in (golden / "v1/archives.txt").read_text().splitlines():
        name, size, sha256 = line.split()
        path = golden / "v1" / f"{name}.brv"
        archive = Archive(path.read_bytes(), brevis_archive.finder(path))
        data = archive.check()
        assert (len(data), hashlib.sha256(data).hexdigest()) == (int(size), sha256), name
        ranges(archive, data)
        for program in archive.all_programs:
            operators |= {node.operator.name for node in program.nodes}
    missing = {o.name for o in brevis_operators.OPERATORS.values()} - operators
    assert not missing, f"no golden has {missing}"
    listed = {line.split()[0] for line in (golden / "v1/archives.txt").read_text().splitlines()}
    assert listed == {p.stem for p in (golden / "v1").glob("*.brv")}, "archives.txt does not list the goldens"
    return len(listed)


def all_rejected():
    paths = sorted((golden / "rejected").glob("*.brv"))
    for path in paths:
        try:
            Archive(path.read_bytes()).check()
        except tuple(KINDS.values()) as e:
            assert isinstance(e, KINDS[path.name.split("-")[0]]), f"{path.name}: {e!r}"
        else:
            raise AssertionError(f"{path.name} was accepted")
    return len(paths)


# I01: a flipped bit anywhere is found
def flipped_bits(name, flips):
    good = (golden / "v1" / f"{name}.brv").read_bytes()
    for _ in range(flips):
        bit = chance.randrange(len(good) * 8)
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        try:
            Archive(bytes(bad), brevis_archive.finder(golden / "v1" / name)).check()
        except (*KINDS.values(), brevis_archive.MissingBase):
            continue
        raise AssertionError(f"{name}: bit {bit} flipped and not seen")
    return flips


# What the packer writes today.
def fresh_archives():
    sys.path.insert(0, str(golden.parent / "mount"))
    import harness
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = pathlib.Path(folder, "m.safetensors"), pathlib.Path(folder, "m.brv")
        some = [(f"{dtype}.{i}", dtype, [n], harness.weights(dtype, n, i))
                for i, (dtype, n) in enumerate((("BF16", 70000), ("F16", 3000), ("F32", 5000), ("I8", 40), ("U8", 0)))]
        plain.write_bytes(harness.safetensors(some + [("again", *some[0][1:])], {"format": "pt"}))
        subprocess.run([packer, "-q", "--progress", "never", plain, "-o", packed], check=True)
        archive = Archive(packed.read_bytes())
        assert archive.check() == plain.read_bytes()
        listed = sorted((name, dtype, shape) for name, dtype, shape, _ in archive.tensors())
        assert listed == sorted((t[0], t[1], t[2]) for t in some + [("again", *some[0][1:])]), listed


        # Snapshots of it: every word of the large tensor a few steps further, or a few words; the others as they were.
        start = int.from_bytes(plain.read_bytes()[:8], "little") + 8
        for places, operator in ((range(0, 140000, 2), "combine"), ((0, 2, 90000, 139998), "patch")):
            changed = bytearray(plain.read_bytes())
            for i in places:
                changed[start + i] ^= 1 + chance.randrange(3)
            snapshot, difference = pathlib.Path(folder, "s.safetensors"), pathlib.Path(folder, "s.brv")
            snapshot.write_bytes(changed)
            subprocess.run([packer, "-q", "--progress", "never", "--force", snapshot, "-o", difference, "--base", packed], check=True)
            archive = Archive(difference.read_bytes(), brevis_archive.finder(difference))
            assert archive.depth == 1 and archive.check() == changed
            assert any(program.root.operator.name == operator for program in archive.all_programs), operator
            ranges(archive, bytes(changed))
        packed.unlink()
        try:
            Archive(difference.read_bytes(), brevis_archive.finder(difference))
        except brevis_archive.MissingBase:
            return
        raise AssertionError("a missing base was not missed")


# The tables of ids say the same as the sources'.
def ids():
    source = golden.parent.parent / "src"
    for path, macro, known in (("dsl/ops.def", "OP", {n: o.name for n, o in brevis_operators.OPERATORS.items()}),
                               ("codec/codecs.def", "CODEC", {n: f.__name__ for n, f in brevis_codecs.CODECS.items()})):
        said = re.findall(rf"^{macro}\((\d+), (\w+),", (source / path).read_text(), re.M)
        assert {int(n): name for n, name in said} == known, path


ids()
print(f"{all_goldens()} goldens, {all_rejected()} refused, "
      f"{sum(flipped_bits(name, 60) for name in ('bundles', 'opaque', 'empty', 'on_base'))} flipped bits found")
fresh_archives()
