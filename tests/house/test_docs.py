# SPDX-License-Identifier: Apache-2.0
"""Documents that can rot are held to what stands.  test_docs.py ROOT

docs/testing.md: each case id in its table occurs in a test, and each case id of a test is in the table.
docs/dsl.md, docs/format-programs.md and docs/format.md, where they stand: every operator, codec and dtype is named.
docs/format*.md: ids of operators and codecs, and required-feature bits, are the sources'.
docs/adr/README.md lists every decision with its title and status.
Links between documents lead somewhere; decisions bear the number of their file, each once.
"""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
problems = []
CASE = re.compile(r"\b([FMZDLSI]\d\d)\b")

table = {}
for line in (root / "docs/testing.md").read_text().splitlines():
    cells = [c.strip() for c in line.strip().strip("|").split("|")]
    if len(cells) >= 3 and CASE.fullmatch(cells[0]):
        table[cells[0]] = [w.strip("`") for w in re.findall(r"`[^`]+`", cells[2])]
if not table:
    problems.append("docs/testing.md has no table of cases")

# A test names its cases before what it says it tests: 'TEST_CASE("F02, F03: ..."' or, in scripts, '# F02: ...'.
named = {}
for path in sorted((root / "tests").rglob("*")):
    if path.suffix in (".cc", ".py", ".sh", ".js") and "house" not in path.parts:
        for line in path.read_text(errors="replace").splitlines():
            found = re.search(r'(?:TEST_CASE\("|#|//|""")\s*((?:[FMZDLSI]\d\d[, ]*)+):', line)
            for case in CASE.findall(found.group(1) if found else ""):
                named.setdefault(case, set()).add(str(path.relative_to(root)))

for case, files in sorted(table.items()):
    for name in files:
        if not any(where.endswith(name) for where in named.get(case, ())):
            problems.append(f"docs/testing.md: {case} names {name}, which has no test of that id")
for case in sorted(set(named) - set(table)):
    problems.append(f"docs/testing.md lacks {case}, tested in {', '.join(sorted(named[case]))}")


def names(path, macro, position):
    lines = (root / path).read_text().splitlines()
    return [line[len(macro) + 1:].split(",")[position].strip(" )") for line in lines if line.startswith(macro + "(")]


OPERATORS = names("src/dsl/ops.def", "OP", 1)
CODECS = names("src/codec/codecs.def", "CODEC", 1)
DTYPES = names("include/brevis/dtypes.def", "DTYPE", 1)
for document, words in {"docs/dsl.md": OPERATORS, "docs/format-programs.md": OPERATORS, "docs/format.md": CODECS + DTYPES}.items():
    if (root / document).exists():
        text = (root / document).read_text()
        problems += [f"{document} does not name `{w}`" for w in words if not re.search(rf"\b{re.escape(w)}\b", text)]



def says(document, what):
    if what not in (root / document).read_text():
        problems.append(f"{document} does not say: {what}")


for path, macro, document in (("src/dsl/ops.def", "OP", "docs/format-programs.md"),
                              ("src/codec/codecs.def", "CODEC", "docs/format-codecs.md")):
    for number, name in zip(names(path, macro, 0), names(path, macro, 1)):
        says("docs/format.md", f"`{name}` {number}")
        says(document, f"| {number} | `{name}` |")

# A bit's names follow it up to the next bit; those in the sources stand in its comment.
BITS = {n: set(re.findall(r"`(\w+)`", why)) for n, why in
        re.findall(r"^constexpr uint32_t kFeature\w+ = 1u << (\d+);\s*// (.*)", (root / "src/archive/format.h").read_text(), re.M)}
header = re.search(r"^.*required features, .*$", (root / "docs/format.md").read_text(), re.M)
said = {n: set(re.findall(r"`(\w+)`", what)) for n, what in re.findall(r"\bbit (\d+)(.*?)(?=\bbit \d|$)", header[0])} if header else {}
if not BITS or said != BITS:
    problems.append(f"docs/format.md has the feature bits {said}, src/archive/format.h {BITS}")

for document in [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md"))]:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text()):
        if not (document.parent / target).exists():
            problems.append(f"{document.relative_to(root)}: link to {target} leads nowhere")

index = (root / "docs/adr/README.md").read_text()
numbers = []
for path in sorted((root / "docs/adr").glob("[0-9]*.md")):
    found = re.match(r"# (\d+)\. (.*)\n\nStatus: (.*)\n", path.read_text())
    numbers.append(int(path.name[:4]))
    if not found or int(found[1]) != numbers[-1]:
        problems.append(f"docs/adr/{path.name} does not begin with its number, title and status")
    elif f"| {found[1]} | [{found[2]}]({path.name}) | {found[3]} |" not in index:
        problems.append(f"docs/adr/README.md lacks | {found[1]} | [{found[2]}]({path.name}) | {found[3]} |")
if numbers != list(range(1, len(numbers) + 1)):
    problems.append(f"docs/adr: numbers {numbers}")

print("\n".join(problems) if problems else f"{len(table)} cases, {len(OPERATORS)} operators, {len(CODECS)} codecs")
sys.exit(bool(problems))
