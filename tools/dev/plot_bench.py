#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what was measured, for docs/benchmarks.md.

usage: tools/dev/plot_bench.py JSON [SVG]
JSON of `brevis bench --json`: size, decoding and encoding on one core; that of
general.py in tests/bench: size against speed; of bench_mount.py there: speeds.
"""
import json
import math
import pathlib
import sys
from xml.sax.saxutils import escape

COLOURS = {"zstd -3": "#8c959f", "scalar": "#b6d7ff", "avx2": "#54aeff", "avx512": "#0969da", "neon": "#54aeff"}


def text(x, y, what, more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="#1f2328" {more}>{escape(what)}</text>'


def whole(parts, width, height):
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">'
            f'<rect width="{width}" height="{height}" fill="#fff"/>' + "\n".join(parts) + "</svg>\n")


def bars(measured):
    parts, y = [text(8, 18, f'One core of {measured["cpu"]}; ratios to memcpy within one run')], 26
    for file in measured["files"]:
        ways = [w for w in file["ways"] if w["name"] in COLOURS]
        name = pathlib.Path(file["path"]).name.removesuffix(".safetensors")
        parts.append(text(8, y + 16, f'{name}, {file["bytes"] / 1e6:.1f} MB', 'font-weight="bold"'))
        lines = [("size", file["packed_bytes"] / file["bytes"], "#2da44e", " of the file")]
        for what in ("decode", "encode"):
            lines += [(f'{what}, {w["name"]}', w[what]["one_core"]["of_memcpy"], COLOURS[w["name"]],
                       f' of memcpy; size {w["packed_bytes"] / file["bytes"]:.3f}' if w["name"] == "zstd -3" else " of memcpy") for w in ways]
        for i, (label, value, colour, unit) in enumerate(lines):
            at, width = y + 20 + 17 * i, max(1.0, min(value, 1.05) * 520)
            parts.append(text(142, at + 12, label, 'text-anchor="end"') + text(156 + width, at + 12, f"{value:.3f}{unit}") +
                         f'<rect x="150" y="{at}" width="{width:.1f}" height="13" fill="{colour}"/>')
        y += 34 + 17 * len(lines)
    return whole(parts, 860, y)


def panel(left, top, title, points):
    low, *_, high = sorted(size for _, size, _ in points)
    slow, *_, fast = sorted(math.log(speed) for *_, speed in points)
    parts = [f'<path d="M{left} {top}v230h300" fill="none" stroke="#d0d7de"/>', text(left, top - 8, title, 'font-weight="bold"'),
             text(left, top + 246, f"{low:.2f} of the size"), text(left + 300, top + 246, f"{high:.2f}", 'text-anchor="end"')]
    labels = []
    for name, size, speed in sorted(points, key=lambda p: -p[2]):
        x = left + 10 + 240 * (size - low) / max(high - low, 1e-9)
        y = top + 10 + 200 * (fast - math.log(speed)) / max(fast - slow, 1e-9)
        at = next(a for a in (y + 4 + step for step in range(999)) if not any(abs(a - b) < 13 and abs(x - c) < 160 for b, c in labels))
        labels.append((at, x))
        colour = "#2da44e" if name == "brevis" else "#8c959f"
        parts += [text(x + 9, at, f"{name}: {speed:.0f} MB/s"), f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>']
    return parts


def scatter(rows):
    groups = {}
    for row in rows:
        groups.setdefault(row["file"].removesuffix(".safetensors").rsplit(".")[-1].upper(), []).append(row)
    parts = [text(8, 18, "Size against MB of the original a second of CPU time, sums over files; speeds on a scale of powers")]
    for i, (group, files) in enumerate(groups.items()):
        total = sum(f["bytes"] for f in files)
        for j, (way, key) in enumerate((("packing", "pack_s"), ("unpacking", "unpack_s"))):
            points = [(n, sum(f["programs"][n]["size"] for f in files) / total,
                       total / 1e6 / sum(max(f["programs"][n][key], 0.001) for f in files)) for n in files[0]["programs"]]
            parts += panel(20 + 430 * j, 56 + 290 * i, f"{way}, {group}, {total / 1e6:.0f} MB in {len(files)}", points)
    return whole(parts, 860, 40 + 290 * len(groups))


if __name__ == "__main__":
    if "--help" in sys.argv or len(sys.argv) not in (2, 3):
        sys.exit(print(__doc__.strip()) or "--help" not in sys.argv)
    read = json.loads(pathlib.Path(sys.argv[1]).read_text())
    draw = __import__("plot_mount").draw if "bars" in read else bars
    pathlib.Path([*sys.argv, "/dev/stdout"][2]).write_text(scatter(read) if isinstance(read, list) else draw(read))
