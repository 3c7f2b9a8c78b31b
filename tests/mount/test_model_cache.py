# SPDX-License-Identifier: Apache-2.0
"""A model hub's cache as download tools keep it: snapshots of links to blobs without extension. Packed elsewhere, and packed
and mounted in its own place, every path of it resolves as before."""
import errno
import hashlib
import os
import subprocess

import harness
from harness import PACK, WORK, Mount, expect, expect_equal, expect_errno

REPO = "models--org--name"


def make_cache(hub):
    """Two revisions that share a file; {path below the hub: bytes}."""
    repo = hub / REPO
    (repo / "blobs").mkdir(parents=True)
    (repo / "refs").mkdir()
    files, commits = {}, ["1a" * 20, "2b" * 20]
    shared = harness.make_model(WORK / "scratch-shared", mib=2, seed=1)
    for n, commit in enumerate(commits):
        own = harness.make_model(WORK / f"scratch-{n}", mib=2, seed=10 + n, dtype="F16")
        for name, data in (("model-00001-of-00002.safetensors", shared), ("model-00002-of-00002.safetensors", own),
                           ("config.json", b'{"n": %d}\n' % n), ("text_encoder/model.safetensors", shared)):
            blob = repo / "blobs" / hashlib.sha256(data).hexdigest()
            blob.write_bytes(data)
            link = repo / "snapshots" / commit / name
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(os.path.relpath(blob, link.parent))
            files[str(link.relative_to(hub))] = data
    (repo / "refs/main").write_text(commits[1])
    (repo / ".no_exist" / commits[1]).mkdir(parents=True)
    (repo / ".no_exist" / commits[1] / "adapter_config.json").touch()
    (hub / "version.txt").write_text("1\n")
    return files


def resolve(hub, name):
    """The path of a file as loaders find it without a network: refs, then snapshots."""
    commit = (hub / REPO / "refs/main").read_text()
    return hub / REPO / "snapshots" / commit / name


def same(hub, files):
    for path, data in files.items():
        expect_equal((hub / path).read_bytes(), data, path)
    found = resolve(hub, "model-00001-of-00002.safetensors")
    expect(found.is_file() and found.is_symlink(), f"{found} is no link to a file")
    expect_equal(found.resolve().name, hashlib.sha256(found.read_bytes()).hexdigest(), "the blob's name")
    expect((hub / REPO / ".no_exist" / "".join(["2b"] * 20) / "adapter_config.json").is_file(), "an empty file is gone")


# F31: snapshots of a cache keep their names and links
def case_packed_elsewhere():
    hub = WORK / "hub"
    files = make_cache(hub)
    harness.pack(hub, WORK / "packed")
    names = {p.name for p in (WORK / "packed" / REPO / "blobs").iterdir()}
    expect_equal(sum(n.endswith(".brv") for n in names), 3, "packed blobs, each once")
    with Mount(WORK / "packed", WORK / "mnt"):
        same(WORK / "mnt", files)
        listed = sorted(str(p.relative_to(WORK / "mnt")) for p in (WORK / "mnt").rglob("*"))
        expect_equal(listed, sorted(str(p.relative_to(hub)) for p in hub.rglob("*")), "names of the cache")
        expect_errno(errno.EROFS, "a lock file", lambda: (WORK / "mnt" / REPO / "lock").write_text(""))


# F31
def case_packed_in_its_place():
    hub = WORK / "hub-in-place"
    files = make_cache(hub)
    blobs = hub / REPO / "blobs"
    done = subprocess.run([PACK, "-q", "--progress", "never", hub], capture_output=True, text=True, timeout=300, check=False)
    expect_equal(done.returncode, 0, done.stderr)
    for archive in blobs.glob("*.brv"):
        archive.with_suffix("").unlink()
    with Mount(hub):
        same(hub, files)
    expect(not resolve(hub, "model-00001-of-00002.safetensors").exists(), "the original is still there")


harness.run(globals())
