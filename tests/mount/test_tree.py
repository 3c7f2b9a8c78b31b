# SPDX-License-Identifier: Apache-2.0
"""A mounted tree against the plain directory it was packed from: names, attributes, links, bytes."""
import errno
import os
import random
import stat

import harness
from harness import WORK, Mount, expect, expect_equal, expect_errno, until

ODD_NAMES = ["with blank", "tab\tand\nline", "grün-模型", "-dash", "back\\slash", "'quote\"", "%s%n", "a" * 250, "..hidden", "dot."]


def vocabulary(seed, mib):
    """Text as tokenizers have it: entries that are numbered one by one, then pairs."""
    source = random.Random(seed)
    words = ["".join(source.choices("etaoinshrdlu\u2581\u00e9\u65e5", k=source.randrange(1, 9))) for _ in range(mib * 30_000)]
    entries = ",\n".join(f'      "{word}": {i}' for i, word in enumerate(words))
    pairs = ",\n".join(f'      "{word[:1]} {word[1:]}"' for word in words)
    return "{\n" + entries + "\n},\n[" + pairs + "]\n"


def build(root):
    """A tree of the kinds that model folders hold, and odd ones."""
    source = random.Random(11)
    harness.make_model(root / "llm/model-00001-of-00002.safetensors", mib=4, seed=1)
    harness.make_model(root / "llm/model-00002-of-00002.safetensors", mib=2, seed=2, dtype="F32")
    (root / "llm/config.json").write_text('{"a": 1}\n')
    (root / "llm/tokenizer.json").write_text(vocabulary(5, mib=2), encoding="utf-8")
    (root / "llm/modeling.py").write_text("".join(f"def f{i}(x):\n    return x + {i % 7}\n\n" for i in range(4000)))
    (root / "llm/model.safetensors.index.json").write_text('{"weight_map": {}}\n')
    # as a download cache keeps them: a name that links to a blob without an extension
    blob = root / "hub/blobs/0f3c"
    harness.make_model(blob, mib=2, seed=3)
    (root / "hub/snapshots/main").mkdir(parents=True)
    (root / "hub/snapshots/main/model.safetensors").symlink_to("../../blobs/0f3c")
    for name in ODD_NAMES:
        (root / "odd" / name).mkdir(parents=True)
        (root / "odd" / name / name).write_bytes(source.randbytes(source.randrange(5000)))
    (root / "empty").mkdir()
    (root / "empty file").touch()
    (root / "one byte").write_bytes(b"x")
    (root / "opaque.bin").write_bytes(source.randbytes(300_000))
    deep = root
    for i in range(30):
        deep = deep / f"level{i}"
    deep.mkdir(parents=True)
    (deep / "bottom").write_text("here")
    (root / "up").symlink_to("llm/../one byte")
    (root / "dangling").symlink_to("nowhere")
    (root / "llm/config.json").chmod(0o640)
    os.utime(root / "llm/config.json", ns=(10**18 + 5, 10**18 + 7))


def walk(root):
    """{relative name: (kind, size or link target, mode, mtime)} of everything below."""
    out = {}
    for folder, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(folder, name)
            s = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(s.st_mode) else s.st_size if stat.S_ISREG(s.st_mode) else None
            times = s.st_mtime_ns if stat.S_ISREG(s.st_mode) else None
            out[os.path.relpath(path, root)] = (stat.S_IFMT(s.st_mode), what, stat.S_IMODE(s.st_mode), times)
    return out


def case_packed_and_mounted_equals_the_original():
    plain, packed = WORK / "tree/plain", WORK / "tree/packed"
    build(plain)
    harness.pack(plain, packed)
    archives = [p for p in packed.rglob("*.brv")]
    expect(len(archives) >= 4, f"only {len(archives)} archives were made")
    with Mount(packed, WORK / "mnt") as mount:
        want, got = walk(plain), walk(mount.at)
        expect_equal(sorted(got), sorted(want), "names")
        for name, entry in want.items():
            expect_equal(got[name][:2], entry[:2], f"kind and size of {name!r}")
            if entry[0] == stat.S_IFREG:
                expect_equal(oct(got[name][2]), oct(entry[2]), f"mode of {name!r}")
            expect_equal(got[name][3], entry[3], f"mtime of {name!r}")
        for name, entry in want.items():
            if os.path.isfile(plain / name):
                expect_equal((mount.at / name).read_bytes(), (plain / name).read_bytes(), f"bytes of {name!r}")
        # random reads all over the tree, as its files are when plain
        source = random.Random(4)
        files = [name for name, entry in want.items() if entry[0] == stat.S_IFREG and entry[1]]
        for _ in range(300):
            name = source.choice(files)
            offset, length = source.randrange(want[name][1]), source.choice([1, 100, 5000, 700_000])
            with open(mount.at / name, "rb", buffering=0) as a, open(plain / name, "rb", buffering=0) as b:
                expect_equal(os.pread(a.fileno(), length, offset), os.pread(b.fileno(), length, offset), f"{name!r} {offset}+{length}")


def case_names_that_meet():
    # the plain file wins over an archive of its name; what only looks like an archive passes through under its own name
    tree = WORK / "meet"
    folder, name, data = harness.packed_model("small", mib=2)
    archive = (folder / (name + ".brv")).read_bytes()
    tree.mkdir()
    (tree / "both.brv").write_bytes(archive)
    (tree / "both").write_text("plain")
    (tree / "foreign.brv").write_text("no archive")
    (tree / "empty.brv").touch()
    (tree / ".brv").write_bytes(archive)
    (tree / "folder.brv").mkdir()
    (tree / "folder.brv/inside").write_text("x")
    (tree / "x.brv.brv").write_bytes(archive)
    with Mount(tree, WORK / "mnt") as mount:
        got = sorted(os.listdir(mount.at))
        expect_equal((mount.at / "both").read_text(), "plain", "both")
        expect_equal(sum(n == "both" for n in got), 1, "entries named both")
        expect_equal((mount.at / "foreign.brv").read_text(), "no archive", "a foreign .brv")
        expect_equal((mount.at / "empty.brv").read_bytes(), b"", "an empty .brv")
        expect_equal((mount.at / "folder.brv/inside").read_text(), "x", "a folder of that name")
        expect_equal((mount.at / "x.brv").read_bytes(), data, "an archive whose original's name ends so")
        for entry in got:
            os.lstat(mount.at / entry)  # what is listed is there
        expect_errno(errno.ENOENT, "an archive's own name", lambda: os.stat(mount.at / "x.brv.brv"))


def case_numbers_of_files():
    # names for one thing have one number, listed and looked up alike; numbers last while nothing changes
    tree = WORK / "numbers"
    folder, name, _ = harness.packed_model("small", mib=2)
    tree.mkdir()
    os.link(folder / (name + ".brv"), tree / "a.brv")
    os.link(folder / (name + ".brv"), tree / "b.brv")
    (tree / "c").write_text("c")
    (tree / "d").mkdir()
    with Mount(tree, WORK / "mnt") as mount:
        listed = {e.name: e.inode() for e in os.scandir(mount.at)}
        known = {n: os.stat(mount.at / n).st_ino for n in listed}
        expect_equal(listed, known, "numbers by listing and by look-up")
        expect_equal(len({known[n] for n in ("a", "c", "d")}), 3, "different things")
        forget_names()
        expect_equal({n: os.stat(mount.at / n).st_ino for n in listed}, known, "numbers later")


def forget_names():
    """The kernel forgets names and nodes, where it lets us ask for it."""
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("2")
    except OSError:
        pass


def case_a_node_in_use_survives_forgetting():
    # open files and working directories keep their nodes while everything else is forgotten
    tree = WORK / "forget"
    folder, name, data = harness.packed_model("small", mib=2)
    (tree / "sub").mkdir(parents=True)
    os.link(folder / (name + ".brv"), tree / "sub" / (name + ".brv"))
    with Mount(tree, WORK / "mnt") as mount:
        held = os.open(mount.at / "sub" / name, os.O_RDONLY)
        at = os.open(mount.at / "sub", os.O_RDONLY | os.O_DIRECTORY)
        for _ in range(5):
            forget_names()
            expect_equal(os.listdir(at), [name], "the open folder")
            fd = os.open(name, os.O_RDONLY, dir_fd=at)
            expect_equal(os.pread(fd, 100, 5000), data[5000:5100], "by the open folder")
            os.close(fd)
            harness.drop_caches(mount.at / "sub" / name)
            expect_equal(os.pread(held, 100, 70000), data[70000:70100], "the open file")
        os.close(held)
        os.close(at)
        until(lambda: mount.counters()["open_files"] == 0, "closed files are still open")


if __name__ == "__main__":
    harness.run(globals())
