# SPDX-License-Identifier: Apache-2.0
"""Help, versions, man pages, the environment, and command lines that make no sense."""
import pathlib
import re
import subprocess

from cli_case import BIN, CliCase, main, model

COMMANDS = ["ls", "inspect", "fsck", "extract", "cat", "diff", "bench", "stats", "add", "remove", "replace", "warm",
            "cache"]
MAN = pathlib.Path(__file__).resolve().parents[2] / "docs" / "man"
COMPLETIONS = MAN.parents[1] / "packaging" / "completions"
LONG = re.compile(r"--([a-z0-9][a-z0-9-]*)")


def helped(text):
    """Long options that a help text lists."""
    return {m.group(1) for line in text.splitlines() if re.match(r"  (-\w, |    )--", line) for m in [LONG.search(line)]}


def manned(text):
    """Long options that a part of a man page lists."""
    return set(re.findall(r"^\.It .*?Fl -([a-z0-9-]+)", text, re.M))


class Help(CliCase):
    def helps(self):
        yield "brevis", self.good(self.brevis("--help"))
        yield "brevis-pack", self.good(self.pack("--help"))
        for command in COMMANDS:
            yield command, self.good(self.brevis(command, "--help"))

    def test_help_fits_80_columns_and_goes_to_stdout(self):
        for name, run in self.helps():
            self.assertEqual(run.err, "", name)
            self.assertTrue(run.text.startswith("usage: "), name)
            for line in run.text.splitlines():
                self.assertLessEqual(len(line), 80, f"{name}: {line}")

    def test_help_and_man_pages_name_the_same_options(self):
        self.assertEqual(helped(self.pack("--help").text), manned((MAN / "brevis-pack.1").read_text()))
        page = (MAN / "brevis.1").read_text()
        common, commands = page.split(".Sh COMMANDS")
        parts = dict(re.findall(r"^\.Ss (\w+)\n(.*?)(?=^\.S[sh] )", commands, re.M | re.S))
        self.assertEqual(sorted(parts), sorted(COMMANDS))
        for command in COMMANDS:
            self.assertEqual(helped(self.brevis(command, "--help").text), manned(common) | manned(parts[command]), command)

    def test_completions_know_the_same_options(self):
        mount = self.good(self.run_program("../fs/brevis-mount", "--help")).text
        for program, text in (("brevis-pack", self.pack("--help").text), ("brevis-mount", mount)):
            want = helped(text)
            bash = (COMPLETIONS / "bash" / program).read_text()
            self.assertEqual({o for line in re.findall(r'options\+?="([^"]*)"', bash) for o in LONG.findall(line)}, want)
            zsh = (COMPLETIONS / "zsh" / f"_{program}").read_text()
            self.assertEqual({LONG.search(line).group(1) for line in zsh.splitlines() if line.startswith("  '") and "--" in line}, want)
        bash = (COMPLETIONS / "bash/brevis").read_text()
        zsh = (COMPLETIONS / "zsh/_brevis").read_text()
        parts = dict(re.findall(r"(?m)^([a-z]+)=\((.*)\)$", zsh))
        for command in COMMANDS:
            want = helped(self.brevis(command, "--help").text)
            line = re.search(rf'(?m)^ .*\b{command}\b.*\) options="([^"]*)"', bash).group(1)
            self.assertEqual(set(LONG.findall(line)) | {"quiet", "verbose", "help", "version"}, want, command)
            case = re.search(rf"(?ms)^  (?:\w+\|)*{command}(?:\|\w+)*\) (_arguments.*?) ;;", zsh).group(1)
            for name, options in parts.items():
                case = case.replace("$" + name, options)
            self.assertEqual(set(LONG.findall(case)), want, command)

    def test_help_names_every_command(self):
        text = self.brevis("--help").text
        for command in COMMANDS:
            self.assertRegex(text, rf"(?m)^  {command}\b")
        self.assertIn("verify", text)

    def test_version(self):
        for run in (self.brevis("--version"), self.pack("--version"), self.brevis("ls", "--version")):
            self.assertRegex(self.good(run).text, r"^brevis[a-z -]* \d+\.\d+\.\d+\n$")

    def test_help_wins_over_the_rest_of_the_line(self):
        self.good(self.brevis("cat", "--nonsense", "-h"))


class Usage(CliCase):
    def test_lines_that_make_no_sense(self):
        for args in ([], ["nonsense"], ["ls"], ["ls", "--nonsense", "x"], ["ls", "a", "b"], ["cat", "x", "--offset", "-1"],
                     ["cat", "x", "--length", "1XB"], ["cat", "x", "--offset"], ["fsck"], ["fsck", "x", "-j", "0"],
                     ["fsck", "x", "-j", "99999"], ["fsck", "x", "--progress", "maybe"], ["diff", "x"], ["extract", "x"]):
            run = self.fails(self.brevis(*args), 2)
            self.assertTrue(run.err, args)
            self.assertEqual(run.out, b"", args)
        for args in ([], ["-o", "x"], ["x", "--digest", "md5"], ["x", "--memory", "lots"], ["x", "--program", "BF16"],
                     ["x", "--memory", "99999999999999999999"], ["x", "--memory", "0"], ["x", "--search", "maybe"],
                     ["x", "--profile", "slow"], ["x", "--expansions", "-1"], ["x", "--without"]):
            self.fails(self.pack(*args), 2, "brevis-pack")

    # Z02: programs of their own, with no interpreter and no framework behind them
    def test_programs_stand_alone(self):
        _, archive = self.packed()
        nothing = {"PATH": "/nonexistent", "LD_LIBRARY_PATH": "", "PYTHONHOME": "/nonexistent"}
        self.assertEqual(self.good(self.brevis("cat", archive, env=nothing)).out, model())
        self.good(self.pack(archive.with_suffix(""), "-o", "again.brv", env=nothing))
        for program in ("brevis", "brevis-pack", "../fs/brevis-mount"):
            needs = subprocess.run(["ldd", BIN / program], capture_output=True, text=True, check=True).stdout
            self.assertNotRegex(needs, r"python|torch|cuda|not found", program)

    def test_a_path_may_begin_with_a_dash(self):
        self.write("-m.safetensors", model())
        self.good(self.brevis("ls", "--", "-m.safetensors"))


class Environment(CliCase):
    def test_every_option_is_a_variable_too(self):
        _, archive = self.packed()
        self.assertEqual(self.good(self.brevis("fsck", archive, env={"BREVIS_JSON": "1"})).json["schema"], 1)
        self.fails(self.brevis("fsck", archive, env={"BREVIS_JOBS": "0"}), 2, "jobs")
        self.good(self.brevis("fsck", archive, "--jobs", "1", env={"BREVIS_JOBS": "2"}))
        self.assertEqual(self.good(self.brevis("fsck", archive, env={"BREVIS_QUIET": "true"})).out, b"")
        self.assertNotEqual(self.good(self.brevis("fsck", archive, env={"BREVIS_QUIET": "false"})).out, b"")
        self.assertEqual(self.good(self.brevis("cat", archive, env={"BREVIS_LENGTH": "1KiB"})).out, model()[:1024])
        self.write("odd.safetensors", model() + b"x")
        self.fails(self.pack("odd.safetensors", "-o", "x.brv", env={"BREVIS_STRICT": "1"}), 65)

    def test_unknown_variables_are_said_at_verbose_only(self):
        _, archive = self.packed()
        env = {"BREVIS_NONSENSE": "1", "BREVIS_CPU": "scalar"}
        self.assertEqual(self.good(self.brevis("fsck", archive, env=env)).err, "")
        run = self.good(self.brevis("fsck", "-v", archive, env=env))
        self.assertIn("BREVIS_NONSENSE", run.err)
        self.assertNotIn("BREVIS_CPU", run.err)

    def test_no_option_is_unknown(self):
        _, archive = self.packed()
        names = helped(self.pack("--help").text).union(*(helped(self.brevis(c, "--help").text) for c in COMMANDS))
        env = {"BREVIS_" + n.upper().replace("-", "_"): "" for n in names - {"help", "version"}}
        self.assertNotIn("no option", self.good(self.brevis("ls", "-v", archive, env=env)).err)


if __name__ == "__main__":
    main()
