#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The tables of what `tests/bench/bench_mount.py --json` measured.

usage: tools/dev/plot_mount.py JSON [DOCUMENT]

Prints them as Markdown, or puts them in the document's place for them:
tools/dev/plot_mount.py docs/data/mount.json docs/benchmarks.md. The picture
is drawn by tools/dev/plot_bench.py.
"""
import json
import pathlib
import re
import sys
from xml.sax.saxutils import escape

COLOURS = {"ours": "#0969da", "with": "#0969da", "without": "#8c959f", "nothing": "#8c959f", "squashfuse": "#d4a72c", "plain": "#2da44e"}
WORDS = {"ours": "brevis", "nothing": "does nothing", "with": "brevis, user", "without": "the same, no push", "plain": "plain file"}
LEFT, WIDTH, ROW = 150, 520, 17


def tables(measured):
    lines = ["| bar | what | measured | bound | |", "|---|---|---|---|---|"]
    for row in measured["bars"]:
        bound = f"≥ {row['least']:g}" if "least" in row else f"≤ {row['most']:g}" if "most" in row else ""
        verdict = "" if not bound else "holds" if row["passed"] else "missed"
        lines.append(f"| {row['bar']} | {row['what']} | {row['value']:.2f} | {bound} | {verdict} |")
    lines += ["", "| read | GB/s | processor seconds a GB, daemon | reader |", "|---|---|---|---|"]
    for name, speed in measured["speed"].items():
        cpu = measured["processor_seconds"].get(name)
        lines.append(f"| {name} | {speed:.2f} | " + (f"{cpu[0]:.2f} | {cpu[1]:.2f} |" if cpu else "| |"))
    return "\n".join(lines)


def draw(measured):
    # 'warm' is on a scale of its own: it would flatten all others.
    cold = {n: v for n, v in measured["speed"].items() if not n.startswith("warm")}
    scale = WIDTH / max(cold.values())
    parts, y, last = [], 30, None
    for name, speed in cold.items():
        mode, _, who = name.rpartition(" ")
        if mode != last:
            y += 6
            title = mode.replace("user ", "an ordinary user's mount, ")
            parts.append(f'<text x="8" y="{y + 12}" font-weight="bold" fill="#1f2328">{escape(title)}</text>')
            y += ROW + 2
            last = mode
        width = max(1.0, speed * scale)
        parts.append(f'<text x="{LEFT - 8}" y="{y + 12}" text-anchor="end" fill="#57606a">{escape(WORDS.get(who, who))}</text>'
                     f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{ROW - 4}" fill="{COLOURS.get(who, "#8c959f")}"/>'
                     f'<text x="{LEFT + width + 6:.1f}" y="{y + 12}" fill="#1f2328">{speed:.2f} GB/s</text>')
        y += ROW
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 780 {y + 8}" font-family="sans-serif" font-size="12">'
            f'<rect width="780" height="{y + 8}" fill="#fff"/><text x="8" y="18" fill="#57606a">Cold reads of {measured["mib"]} MiB of BF16, '
            f'{measured["cores"]} cores of {escape(measured["cpu"])}, Linux {escape(measured["kernel"])}</text>' + "\n".join(parts) + "</svg>\n")


PLACE = re.compile(r"(?<=<!-- the mount -->\n).*?(?=<!-- end of the mount -->)", re.S)

if __name__ == "__main__":
    if "--help" in sys.argv or len(sys.argv) not in (2, 3):
        print(__doc__.strip())
        sys.exit("--help" not in sys.argv)
    found = tables(json.loads(pathlib.Path(sys.argv[1]).read_text()))
    if len(sys.argv) == 2:
        print(found)
    else:
        document = pathlib.Path(sys.argv[2])
        document.write_text(PLACE.sub(lambda _: found + "\n", document.read_text()))
