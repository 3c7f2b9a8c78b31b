# SPDX-License-Identifier: Apache-2.0
"""Command lines in documents, units and examples name only what the programs know.  test_documents.py"""
import pathlib
import re
import subprocess

import cli_case
from cli_case import BIN, CliCase

ROOT = pathlib.Path(__file__).resolve().parents[2]
LONG = re.compile(r"(?<![\w-])--([a-z][a-z0-9-]*)")
CALL = re.compile(r"(?:^|[\s`(\"'/$])(brevis-pack|brevis-mount|brevis)(?:\"?)((?:[ ,\]]+[^`\n|#;]*)?)")


def written():
    """Texts that show commands: documents, packaging, demos, scripts of the documents."""
    for path in sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *(ROOT / "packaging").rglob("*"), *(ROOT / "tools/demo").glob("*.sh")]):
        if path.is_file() and "completions" not in path.parts:
            yield path, path.read_text().replace("\\\n", " ")


class Documents(CliCase):
    def known(self, *command):
        where = BIN / command[0] if command[0] != "brevis-mount" else BIN.parent / "fs" / "brevis-mount"
        done = subprocess.run([where, *command[1:], "--help"], capture_output=True, text=True, timeout=60, check=True)
        return set(LONG.findall(done.stdout))

    def test_options_exist(self):
        commands = set(re.findall(r"^  ([a-z]+)[ ,]", self.good(self.brevis("--help")).text, re.M))
        self.assertIn("fsck", commands)
        help_of, seen = {}, 0
        for path, text in written():
            for program, rest in CALL.findall(text):
                command = (program,)
                if program == "brevis":
                    words = rest.split()
                    if not words or words[0] not in commands | {"verify"}:
                        continue
                    command = ("brevis", words[0])
                if command not in help_of:
                    help_of[command] = self.known(*command)
                for option in LONG.findall(rest):
                    seen += 1
                    self.assertIn(option, help_of[command], f"{path.relative_to(ROOT)}: {' '.join(command)} has no --{option}")
        self.assertGreater(seen, 15)

    def test_commands_of_documents_exist(self):
        """`brevis WORD` in code of the documents is a command."""
        text = self.good(self.brevis("--help")).text
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
            for word in re.findall(r"`brevis ([a-z]+)", path.read_text()):
                self.assertRegex(text, rf"\b{word}\b", f"{path.name}: brevis {word}")

    def test_files_that_documents_name_exist(self):
        for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]:
            for name in re.findall(r"`((?:tools|packaging|tests|src|docs|include)/[\w./*@-]+)`?", path.read_text()):
                if not any(c in name for c in "*") and not any(part.isupper() for part in re.split(r"[/._]", name)):
                    self.assertTrue((ROOT / name.rstrip("/.")).exists(), f"{path.name} names {name}")


if __name__ == "__main__":
    cli_case.main()
