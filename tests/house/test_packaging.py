# SPDX-License-Identifier: Apache-2.0
"""The Debian packages are built with what the project is built with, and hold what is installed.  test_packaging.py ROOT"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

root = pathlib.Path(sys.argv[1])
problems = []

script = (root / "tools/dev/install_packages.sh").read_text()
build = set(re.search(r'\[build\]="([^"]*)"', script).group(1).split()) - {"g++"}  # build-essential has it
control = (root / "packaging/debian/control").read_text()
wanted = re.search(r"^Build-Depends:(.*?)(?=^\S)", control, re.M | re.S).group(1)
named = {re.sub(r"\s*\(.*\)", "", entry).strip() for entry in wanted.split(",")}
problems += [f"packaging/debian/control: Build-Depends lacks {p}, which tools/dev/install_packages.sh has" for p in sorted(build - named)]

# Every header that an installed one includes is installed, too.
listed = set(re.findall(r"'([\w.]+)'", re.search(r"install_headers\((.*?)subdir", (root / "include/brevis/meson.build").read_text(), re.S).group(1)))
listed.add("version.h")
for header in sorted(listed - {"version.h"}):
    for other in re.findall(r'#include "brevis/([\w.]+)"', (root / "include/brevis" / header).read_text()):
        if other not in listed:
            problems.append(f"include/brevis/meson.build: {header} is installed, {other} that it includes is not")

# Each man page has its program and the other way round.
pages = {p.stem for p in (root / "docs/man").glob("*.[158]")}
installed = set(re.findall(r"manuals / '([\w.-]+)\.[158]'", (root / "tools/meson.build").read_text()))
if pages != installed:
    problems.append(f"tools/meson.build: man pages that are there and not installed, or the other way round: {sorted(pages ^ installed)}")

# Packages are named alike wherever they are.
packages = set(re.findall(r"^Package: (.*)$", control, re.M))
test = set(re.search(r"PACKAGES = \[([^\]]*)\]", (root / "tests/packages/test_packages.py").read_text()).group(1).replace('"', "").split(", "))
if packages != test:
    problems.append(f"tests/packages/test_packages.py tests {sorted(test)}, packaging/debian/control has {sorted(packages)}")

# A build of packages finds the caller's compiler cache, though debhelper gives it another home.
with tempfile.TemporaryDirectory(prefix="brevis-packaging.") as folder:
    at = pathlib.Path(folder)
    for name, text in (("ccache", 'case $2 in cache_dir) echo /the/cache ;; max_size) echo 7.0G ;; esac'), ("dh", ""),
                       ("dpkg-buildpackage", f'echo "$CCACHE_DIR $CCACHE_MAXSIZE" >{at}/seen; touch ../brevis.deb')):
        (at / name).write_text(f"#!/bin/sh\n{text}\n")
        (at / name).chmod(0o755)
    env = {k: v for k, v in os.environ.items() if not k.startswith("CCACHE_")} | {"PATH": f"{at}:{os.environ['PATH']}"}
    done = subprocess.run([root / "packaging/build-deb.sh", at / "debs"], env=env, text=True, capture_output=True, check=False)
    seen = (at / "seen").read_text().strip() if (at / "seen").exists() else done.stderr
    if done.returncode or seen != "/the/cache 7.0G" or not (at / "debs/brevis.deb").exists():
        problems.append(f"packaging/build-deb.sh: status {done.returncode}, the compiler cache is '{seen}'")

print("\n".join(problems) if problems else f"{len(packages)} packages, {len(listed)} headers, {len(pages)} man pages")
sys.exit(bool(problems))
