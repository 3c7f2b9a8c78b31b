# SPDX-License-Identifier: Apache-2.0
"""Codes and names in docs/reference.md, manual pages and other documents are those of the sources.  test_reference.py ROOT"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
problems = []


def text(path):
    return (root / path).read_text()


def rows(heading):
    """Cells of the table below a heading of docs/reference.md."""
    part = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", text("docs/reference.md"), re.M | re.S).group(1)
    found = [[c.strip() for c in line.strip().strip("|").split("|")] for line in part.splitlines() if line.startswith("| ")]
    return found[1:]


def compare(what, documented, real):
    problems.extend(f"docs/reference.md, {what}: {d} is not in the sources" for d in sorted(set(documented) - set(real), key=str))
    problems.extend(f"docs/reference.md, {what}: {r} is missing" for r in sorted(set(real) - set(documented), key=str))
    if len(set(documented)) != len(documented):
        problems.append(f"docs/reference.md, {what}: something is there twice")


def switch(function):
    """[(kind, value)] of a function of src/base/error.cc that switches over kinds."""
    body = re.search(rf"{function}\(.*?\n}}", text("src/base/error.cc"), re.S).group(0)
    kinds, out = [], []
    for kind, value in re.findall(r"case Errc::(\w+):(?: return (?:own_or\(|error\.\w+\(\) \? 73 : )?\"?(\w+))?", body):
        kinds.append(kind)
        if value:
            out += [(k, value) for k in kinds]
            kinds = []
    return out


# Kinds: name, exit code and errno, and the headers that list them.
kinds = [(c[0].strip("`"), c[2], c[3].strip("`")) for c in rows("Kinds of errors")]
codes, errnos = dict(switch("to_exit_code")), dict(switch("to_errno"))
compare("kinds", kinds, [(name, codes.get(kind, "?"), errnos.get(kind, "?")) for kind, name in switch("errc_name")])
declared = re.findall(r"^  (\w+),\s*//", re.search(r"enum class Errc.*?};", text("include/brevis/error.h"), re.S).group(0), re.M)
compare("kinds in error.h", [k[0] for k in kinds], declared)
in_c = re.findall(r"BREVIS_E_(\w+) = \d", text("include/brevis/c.h"))
compare("kinds in c.h", [k[0] for k in kinds], ["invalid_argument" if c == "ARGUMENT" else c.lower() for c in in_c])

# Exit codes: those of kinds, of the programs' contract, of signals; manual pages and documents use no others.
exits = [int(code) for c in rows("Exit codes") for code in c[0].split(", ")]
contract = [int(n) for n in re.findall(r"kExit\w+ = (\d+)", text("tools/output.h"))]
compare("exit codes", exits, {*map(int, codes.values()), *contract, 128 + 1, 128 + 2, 128 + 15})
for page in sorted((root / "docs/man").glob("*.[18]")):
    status = re.search(r"^\.Sh EXIT STATUS\n(.*?)(?=^\.Sh )", page.read_text(), re.M | re.S)
    if not status:
        problems.append(f"{page.name} does not list exit codes")
        continue
    for code in re.findall(r"^\.It ([\d ,]+)$", status.group(1), re.M):
        problems += [f"{page.name}: exit code {n} is unknown" for n in map(int, re.findall(r"\d+", code)) if n not in exits and "mount.fuse" not in page.name]
for document in sorted((root / "docs").glob("*.md")):
    for code in re.findall(r"exit(?:s with| code)? (\d+)", document.read_text()):
        if int(code) not in exits:
            problems.append(f"{document.name}: exit code {code} is unknown")

# Metrics and counters.
source = text("fs/metrics.cc")
table = re.findall(r'^    \{"(\w+)", "(\w+)",', source, re.M)
named = re.findall(r'family\("(\w+)"', source)
metrics = [(c[0].strip("`"), c[1].strip("`").removeprefix("brevis_")) for c in rows("Metrics and counters")]
compare("metrics", [m for _, m in metrics], [*(m for _, m in table), *named])
compare("counters", [pair for pair in metrics if pair[1] not in named], table)
operations = re.findall(r'"(\w+)"', re.search(r"kOperations = \{(.*?)\}", text("fs/latency.h"), re.S).group(1))
compare("operations", re.findall(r"`(\w+)`", rows("Metrics and counters")[-1][2].split("is one of")[1]), operations)
known = {m for _, m in metrics}
for document in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
    for cell in re.findall(r"`brevis_([a-z_]+)`((?:, `_[a-z_]+`)*)", document.read_text()):
        first = [k for k in known if k == cell[0]]
        if not first and document.name != "library.md":
            problems.append(f"{document.name}: there is no metric brevis_{cell[0]}")
        for ending in re.findall(r"`(_[a-z_]+)`", cell[1]) if first else ():
            if not any(k.endswith(ending) and k.split("_")[0] == cell[0].split("_")[0] for k in known):
                problems.append(f"{document.name}: there is no metric that ends in {ending} beside brevis_{cell[0]}")

# Options of the configuration, and every piece of TOML in documents and examples.
options = re.findall(r'^    \{"([\w-]+)", (?:nullptr|"\w"), .*?,\s+(true|false),\s', text("fs/option_table.cc"), re.M | re.S)
keys = [name for name, command_only in options if command_only == "false" and name != "config"]
compare("configuration", [c[0].strip("`") for c in rows("Configuration")], keys)
shown = [(p, p.read_text()) for p in sorted((root / "packaging").rglob("*.toml"))]
for page in sorted((root / "docs/man").glob("*.8")):
    shown += [(page, block) for block in re.findall(r"^# /etc/brevis/\S+\n(.*?)^\.Ed", page.read_text(), re.M | re.S)]
for document in sorted((root / "docs").glob("*.md")):
    shown += [(document, block) for block in re.findall(r"```toml\n(.*?)```", document.read_text(), re.S)]
for path, lines in shown:
    problems += [f"{path.name}: unknown option {key}" for key in re.findall(r"^([\w-]+) *=", lines, re.M) if key not in keys]

print("\n".join(problems) if problems else
      f"{len(kinds)} kinds, {len(exits)} exit codes, {len(metrics)} metrics, {len(keys)} options, {len(shown)} configurations")
sys.exit(bool(problems))
