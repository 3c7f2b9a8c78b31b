# SPDX-License-Identifier: Apache-2.0
"""What README and docs/operations.md show is run as it stands there, and the tour.  test_readme.py ROOT LIBRARY"""
import filecmp
import importlib.util
import os
import pathlib
import re
import subprocess
import sys

import harness
from harness import MOUNT, PACK, TOOL, WORK, expect, expect_equal

LIBRARY = sys.argv.pop(2)
ROOT = pathlib.Path(sys.argv.pop(1))
HOME = WORK / "home"


def block(document, heading, language=""):
    """The first block of code below a heading."""
    text = (ROOT / document).read_text()
    return re.search(rf"^## {heading}\n.*?^```{language}\n(.*?)^```", text, re.M | re.S).group(1)


def shell(script, folder):
    programs = ":".join(os.path.dirname(p) for p in (PACK, TOOL, MOUNT))
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BREVIS_")}
    done = subprocess.run(["bash", "-eu", "-c", script], cwd=folder, capture_output=True, text=True, timeout=200, check=False,
                          env={**clean, **harness.sanitizer_environment(), "HOME": str(HOME), "PATH": f"{programs}:{os.environ['PATH']}"})
    expect(done.returncode == 0, f"exit {done.returncode}: {done.stderr}\n{script}")
    return done.stdout


def same_trees(a, b):
    names = sorted(p.relative_to(a) for p in a.rglob("*") if p.is_file())
    expect_equal(sorted(p.relative_to(b) for p in b.rglob("*") if p.is_file()), names, "files")
    for name in names:
        expect(filecmp.cmp(a / name, b / name, shallow=False), f"{name} differs")


def case_use_it():
    harness.make_model(HOME / "models/llm/model.safetensors", mib=4)
    (HOME / "models/llm/config.json").write_text("{}\n")
    script = block("README.md", "Use it")
    expect("brevis-mount --unmount" in script, "no mount is shown")
    # While it is mounted it shows the models.
    shell(script.replace("brevis-mount --unmount", "diff -r ~/models ~/mnt\nbrevis-mount --unmount"), HOME)
    same_trees(HOME / "models", HOME / "models.new")
    expect(not any(str(HOME) in line for line in pathlib.Path("/proc/mounts").read_text().splitlines()), "still mounted")


def case_python():
    snippet = re.search(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S).group(1)
    folder = HOME / "python"
    harness.make_model(folder / "model.safetensors", mib=2)
    harness.pack(folder / "model.safetensors", folder / "model.safetensors.brv")
    done = subprocess.run([sys.executable, "-c", snippet + "\nprint(len(weights), type(weights['odd']).__module__)"], cwd=folder,
                          capture_output=True, text=True, check=False, timeout=100,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "packaging/python"), "BREVIS_LIBRARY": LIBRARY})
    expect_equal((done.returncode, done.stdout), (0, "3 torch\n"), done.stderr)


def case_relations():
    folder = HOME / "store-of-runs"
    for i in (1, 2, 3):
        harness.make_model(folder / f"run/step-{i}/model.safetensors", mib=2, seed=i)
    for name in ("base", "tuned", "store/a", "store/b"):
        harness.make_model(folder / name / "model.safetensors", mib=2, seed=7)
    harness.make_model(folder / "other.safetensors", mib=2, seed=7)
    harness.make_model(folder / "tuned.safetensors", mib=2, seed=8)
    for source, target in (("base", "packed/base"), ("other.safetensors", "other.brv"), ("tuned.safetensors", "tuned.brv")):
        harness.pack(folder / source, folder / target)
    shell(block("docs/operations.md", "Snapshots, fine-tunes, duplicates"), folder)
    shell("brevis fsck packed; brevis ls --needed-by packed", folder)
    for source, archive in (("run/step-3", "step-3"), ("tuned", "tuned"), ("store/b", "b")):
        got = subprocess.run([TOOL, "cat", folder / "packed" / archive / "model.safetensors.brv"], capture_output=True, check=False, timeout=60)
        expect(got.stdout == (folder / source / "model.safetensors").read_bytes(), f"{archive}: {got.stderr}")


def case_tour():
    """tools/demo/tour.sh on a model of one's own: nothing from a network, nothing left behind."""
    tree, temporary = WORK / "tour", WORK / "tour-tmp"
    for folder in (tree / "tools", tree / "build/src", temporary):
        folder.mkdir(parents=True)
    for link, to in (("tools/demo", ROOT / "tools/demo"), ("packaging", ROOT / "packaging"), ("build/tools", os.path.dirname(TOOL)),
                     ("build/fs", os.path.dirname(MOUNT)), ("build/src/library", os.path.dirname(LIBRARY))):
        (tree / link).symlink_to(to)
    harness.make_model(WORK / "tour-model/model.safetensors", mib=4)
    said = shell(f"TMPDIR={temporary} {tree}/tools/demo/tour.sh {WORK}/tour-model", WORK)
    for words in ("saved", "merge(", "equal, byte for byte", "sum of all absolute weights", "PER SECOND", "1 fault", "exit 1"):
        expect(words in said, f"{words!r} is not in what it said:\n{said}")
    expect_equal(list(temporary.iterdir()), [], "left behind")


if __name__ == "__main__":
    # A sanitized library cannot be loaded into an ordinary Python; PyTorch may be missing on a person's machine.
    if harness.sanitized() or not (harness.IN_CI or importlib.util.find_spec("torch")):
        del case_python
    harness.run(globals())
