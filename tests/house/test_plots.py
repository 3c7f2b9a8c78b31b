# SPDX-License-Identifier: Apache-2.0
"""Plots in docs/plots are what tools/dev/plot_bench.py draws from docs/data.  test_plots.py ROOT"""
import pathlib
import subprocess
import sys

root = pathlib.Path(sys.argv[1])
problems = []
data = {p.stem: p for p in (root / "docs/data").glob("*.json")}
plots = {p.stem: p for p in (root / "docs/plots").glob("*.svg")}
problems += [f"docs/data and docs/plots: {name} is in one of them only" for name in sorted(set(data) ^ set(plots))]
for name in sorted(set(data) & set(plots)):
    drawn = subprocess.run([root / "tools/dev/plot_bench.py", data[name]], capture_output=True, text=True, check=True).stdout
    if drawn != plots[name].read_text():
        problems.append(f"docs/plots/{name}.svg is not up to date: tools/dev/plot_bench.py docs/data/{name}.json docs/plots/{name}.svg")
    if f"plots/{name}.svg" not in (root / "docs/benchmarks.md").read_text():
        problems.append(f"docs/benchmarks.md does not show plots/{name}.svg")
if "mount" in data:
    tables = subprocess.run([root / "tools/dev/plot_mount.py", data["mount"]], capture_output=True, text=True, check=True).stdout
    if tables not in (root / "docs/benchmarks.md").read_text():
        problems.append("tables of the mount are not up to date: tools/dev/plot_mount.py docs/data/mount.json docs/benchmarks.md")
print("\n".join(problems) if problems else f"{len(plots)} plots")
sys.exit(bool(problems) or not plots)
