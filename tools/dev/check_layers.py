#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the layer rule of src/LAYERS over all sources, and the size of rooms.

usage: tools/dev/check_layers.py [ROOT]

Prints FILE:LINE and the rule, and fails, where a folder includes (or its
meson.build links) a layer not named in its line, a line names a layer that
stands below it, a library appears outside the files of its `only` line, the
face takes in a library, a layer prints or exits, a file passes 500 lines.
"""
import pathlib
import re
import sys

LIMIT = 500
INCLUDE = re.compile(r'\s*#\s*include\s+(["<])([^">]+)[">]')
PRINTS = re.compile(r"\bstd::(cout|cerr|exit|abort)\b|(?<![\w:.>])(printf|puts|exit|_exit|abort)\(")


def read_rules(path):
    may, only, broken = {}, {}, []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        head, colon, names = line.split("#")[0].partition(":")
        if colon and head.startswith("only "):
            only[head.split()[1]] = [n for home in names.split() for n in (home, "src/" + home)]
        elif colon:
            broken += [f"src/LAYERS:{number}: {n} does not stand above {head}" for n in names.split() if n not in may]
            may[head.strip()] = set(names.split()) | {head.strip()}
    return may, only, broken


def broken_include(kind, target, where, layer, may, only):
    if kind == "<":
        for library, homes in only.items():
            if re.search(rf"\b{library}", target) and not str(where).startswith(tuple(homes)):
                return f"{library} may be named in {' '.join(homes)} only"
        if layer == "face" and "/" in target and target != "tl/expected.hpp":
            return "include/brevis takes only itself, the standard library and tl/expected.hpp"
        return None
    first = target.split("/")[0]
    other = "face" if first == "brevis" else first if "/" in target else layer
    if other not in may:
        return f"{first} is no layer"
    return None if other in may[layer] else f"{layer} may not include {other}"


def check_source(path, where, layer, may, only):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = INCLUDE.match(line)
        rule = found and broken_include(*found.groups(), where, layer, may, only)
        if where.parts[0] == "src" and PRINTS.search(line.split("//")[0]):
            rule = "libraries neither print nor exit"
        if rule:
            yield f"{where}:{number}: {rule}: {line.strip()}"


def main(root):
    may, only, broken = read_rules(root / "src/LAYERS")
    files = sorted(p for top in ("include", "src", "fs", "tools", "tests") for p in (root / top).rglob("*"))
    for path in files:
        where = path.relative_to(root)
        layer = {"include": "face", "src": where.parts[1]}.get(where.parts[0], where.parts[0])
        if path.suffix in (".cc", ".h", ".def", ".py", ".sh"):
            lines = path.read_text(errors="replace").count("\n")
            if lines > LIMIT:
                broken.append(f"{where}:{LIMIT + 1}: {lines} lines, above {LIMIT}: make two rooms of it")
        if path.suffix in (".cc", ".h", ".def") and where.parts[0] != "tests":
            broken += check_source(path, where, layer, may, only)
        if path.name == "meson.build" and layer in may:
            linked = re.findall(r"\b(\w+)_lib\b", path.read_text()) if where.parts[0] == "src" else []
            broken += [f"{where}:1: {layer} may not link {n}" for n in linked if n in may and n not in may[layer]]
    print("\n".join(broken) if broken else f"{len(files)} files keep the rules of src/LAYERS")
    return bool(broken)


if __name__ == "__main__":
    if "--help" in sys.argv:
        sys.exit(print(__doc__.strip()))
    sys.exit(main(pathlib.Path([*sys.argv, pathlib.Path(__file__).parents[2]][1]).resolve()))
