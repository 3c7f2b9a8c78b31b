# SPDX-License-Identifier: Apache-2.0
"""The library as others see it: installed into an empty root, found by pkg-config, the examples compiled and run, every
installed header on its own, and no symbol shown that is not promised.
test_installed.py BUILD EXAMPLES HARNESS C++-COMPILER..."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

build, examples, harness_folder, *compiler = sys.argv[1:]
sys.path.insert(0, harness_folder)
import harness

folder = pathlib.Path(tempfile.mkdtemp(prefix="brevis-installed."))


def run(*command, **how):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, check=False, **how)
    assert done.returncode == 0, f"{command} gave {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


root = folder / "root"
run("meson", "install", "-C", build, "--no-rebuild", "--destdir", root)
found = {p.name: p for p in root.rglob("*")}
library, pc = found["libbrevis.so.0"].parent, found["brevis.pc"].parent
environment = {**os.environ, "PKG_CONFIG_PATH": str(pc), "PKG_CONFIG_SYSROOT_DIR": str(root), "LD_LIBRARY_PATH": str(library),
               "PKG_CONFIG_ALLOW_SYSTEM_CFLAGS": "1", "PKG_CONFIG_ALLOW_SYSTEM_LIBS": "1"}
flags = run("pkg-config", "--cflags", "--libs", "brevis", env=environment).split()
warnings = ["-Wall", "-Wextra", "-Werror"]

plain = folder / "m.safetensors"
tensors = [("a", "BF16", [100, 30], harness.weights("BF16", 3000, 1)), ("b", "F32", [], b"\0\1\2\3"), ("c", "U8", [0], b"")]
plain.write_bytes(harness.safetensors(tensors))
packed = folder / "m.safetensors.brv"

run(*compiler, "-std=c++20", *warnings, pathlib.Path(examples, "pack_and_read.cc"), *flags, "-o", folder / "cxx")
out = run(folder / "cxx", plain, packed, env=environment)
assert all(f"{name} {dtype} {len(data)} bytes" in out for name, dtype, _, data in tensors), out
refused = subprocess.run([folder / "cxx", plain, packed], env=environment, capture_output=True, text=True, check=False)
assert refused.returncode and "--force" not in refused.stdout and refused.stderr, refused

run("cc", "-std=c99", "-pedantic", *warnings, pathlib.Path(examples, "list_tensors.c"), *flags, "-o", folder / "c")
out = run(folder / "c", packed, env=environment)
assert out.startswith(f"3 tensors, {plain.stat().st_size} bytes in {packed.stat().st_size}"), out
assert f"a BF16, 2 dimensions, 6000 bytes, first {tensors[0][3][0]:02x}" in out and "b F32, 0 dimensions, 4 bytes" in out, out
bad = subprocess.run([folder / "c", plain], env=environment, capture_output=True, text=True, check=False)
assert bad.returncode == 1 and "archive" in bad.stderr, bad

# Installed headers need nothing that is not installed.
for header in sorted((found["c.h"].parent).glob("*.h")):
    run(*compiler, "-std=c++20", *warnings, "-fsyntax-only", "-x", "c++", "-include", f"brevis/{header.name}", "/dev/null",
        *[f for f in flags if f.startswith("-I")] or ["-I", found["c.h"].parents[1]])

shown = run("nm", "-D", "--defined-only", "-C", library / "libbrevis.so.0").splitlines()
names = {line.split(None, 2)[2] for line in shown if " A " not in line}
stray = [n for n in names if not n.startswith(("brevis_", "brevis::", "typeinfo", "vtable"))]
assert not stray, stray
inner = [n for n in names if n.split("(")[0].startswith(tuple(f"brevis::{layer}::" for layer in (
    "archive", "bits", "cache", "codec", "dsl", "pack", "serve", "synth")))]
assert not inner, inner
declared = set()
for line in found["c.h"].read_text().splitlines():
    if line.startswith("BREVIS_API"):
        declared.add(line.split("(")[0].split()[-1].lstrip("*"))
exported = {n.split("@")[0] for n in names if n.startswith("brevis_")}
assert declared == exported, declared ^ exported
for what in ("Archive::open", "pack_files", "extract", "check", "diff", "peek_archive", "Volume::open", "examine_file"):
    assert any(f"brevis::{what}(" in n for n in names), f"{what} is not shown"

module = found["__init__.py"].parent
assert module.name == "brevis"
shutil.rmtree(folder)
print(f"installed, found and linked; {len(exported)} functions for C, {len(names) - len(exported)} symbols for C++")
