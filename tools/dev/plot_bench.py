#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws what `brevis bench --json` measured.

usage: tools/dev/plot_bench.py JSON [SVG]

Bars of each file: its size, and decoding on one core as ratios to memcpy of
the same run, for zstd -3 and each kernel level. SVG is standard output when
it is not named.
"""
import json
import pathlib
import sys
from xml.sax.saxutils import escape

COLOURS = {"zstd -3": "#8c959f", "scalar": "#b6d7ff", "avx2": "#54aeff", "avx512": "#0969da", "neon": "#54aeff"}
LEFT, SCALE, ROW = 150, 520, 17


def bar(y, label, value, colour, text):
    width = max(1.0, min(value, 1.05) * SCALE)
    return (f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end" fill="#57606a">{escape(label)}</text>'
            f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{ROW - 4}" fill="{colour}"/>'
            f'<text x="{LEFT + width + 6:.1f}" y="{y + 12}" fill="#1f2328">{escape(text)}</text>')


def draw(measured):
    parts, y = [], 30
    for file in measured["files"]:
        name = pathlib.Path(file["path"]).name.removesuffix(".brv").removesuffix(".safetensors")
        parts.append(f'<text x="8" y="{y + 12}" font-weight="bold" fill="#1f2328">{escape(name)}, {file["bytes"] / 1e6:.1f} MB</text>')
        y += ROW + 4
        size = file["packed_bytes"] / file["bytes"]
        parts.append(bar(y, "size", size, "#2da44e", f"{size:.3f} of the file"))
        y += ROW
        for way in file["ways"]:
            if way["name"] not in COLOURS:
                continue
            of_memcpy = way["decode"]["one_core"]["of_memcpy"]
            text = f'{of_memcpy:.3f} of memcpy'
            if way["name"] == "zstd -3":
                text += f', size {way["packed_bytes"] / file["bytes"]:.3f}'
            parts.append(bar(y, f'decode, {way["name"]}', of_memcpy, COLOURS[way["name"]], text))
            y += ROW
        y += 12
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 860 {y + 8}" font-family="sans-serif" font-size="12">'
            f'<rect width="860" height="{y + 8}" fill="#fff"/><text x="8" y="18" fill="#57606a">One core of {escape(measured["cpu"])}; '
            f'ratios within one run</text><line x1="{LEFT + SCALE}" x2="{LEFT + SCALE}" y1="26" y2="{y}" stroke="#d0d7de"/>')
    return head + "\n".join(parts) + "</svg>\n"


if __name__ == "__main__":
    if "--help" in sys.argv or len(sys.argv) not in (2, 3):
        print(__doc__.strip())
        sys.exit("--help" not in sys.argv)
    picture = draw(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    if len(sys.argv) == 3:
        pathlib.Path(sys.argv[2]).write_text(picture)
    else:
        sys.stdout.write(picture)
