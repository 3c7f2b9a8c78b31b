# SPDX-License-Identifier: Apache-2.0
"""brevis-mount's command line: help, manual page, environment, configuration, exit codes. Mounts nothing.

test_options.py ROOT
"""
import os
import pathlib
import re
import subprocess
import sys

import harness
from harness import MOUNT, WORK, expect, expect_equal

ROOT = pathlib.Path(sys.argv.pop(1))


def call(*arguments, **env):
    clean = {k: v for k, v in os.environ.items() if not k.startswith("BREVIS_")}
    return subprocess.run([MOUNT, *map(str, arguments)], capture_output=True, text=True, timeout=30, check=False, env={**clean, **env})


def refused(word, *arguments, **env):
    done = call(*arguments, **env)
    expect(done.returncode == 2, f"{arguments} {env}: exit {done.returncode}: {done.stderr}")
    expect(word in done.stderr, f"{arguments} {env}: {done.stderr!r} does not say {word!r}")
    expect(done.stdout == "", "something on stdout")
    expect(done.stderr.startswith("brevis-mount: ") and done.stderr.count("\n") == 1, f"not one line: {done.stderr!r}")


def accepted(*arguments, **env):
    """The options are right: what is wrong is the source, which does not exist."""
    done = call(*arguments, "/nonexistent", **env)
    expect(done.returncode == 66 and "/nonexistent" in done.stderr, f"{arguments} {env}: {done.returncode} {done.stderr}")


def case_help_and_manual():
    done = call("--help")
    expect_equal(done.returncode, 0, "exit code")
    expect_equal([line for line in done.stdout.splitlines() if len(line) > 80], [], "lines beyond 80 columns")
    expect_equal(call("-h").stdout, done.stdout, "-h")
    in_help = set(re.findall(r"--([a-z][a-z-]+)", done.stdout.split("Options:")[1]))
    page = (ROOT / "docs/man/brevis-mount.8").read_text()
    in_page = set(re.findall(r"Fl -([a-z][a-z-]+)", page))
    expect_equal(in_page, in_help, "options of the manual page and of --help")
    short_help, short_page = (set(re.findall(p, t)) for p, t in ((r"\n  -([a-z]),", done.stdout), (r"\.It Fl ([a-z]) ,", page)))
    expect_equal(short_page, short_help, "short options")


def case_version():
    done = call("--version")
    expect(done.returncode == 0 and re.fullmatch(r"brevis-mount \d+\.\d+\.\d+\S*\n", done.stdout), f"{done}")


def case_command_line():
    refused("SOURCE is missing")
    refused("--nonsense", "--nonsense", "/x")
    refused("--memory takes a size", "--memory", "much", "/x")
    refused("--memory", "--memory", "99999999999999999999", "/x")
    refused("--memory", "--memory", "20000000TiB", "/x")
    refused("--memory", "--memory", "-1", "/x")
    refused("--grace takes a number", "--grace", "1.5", "/x")
    refused("--jobs takes a number from 1", "--jobs", "0", "/x")
    refused("--cache takes auto, always or off", "--cache", "yes", "/x")
    refused("--cache-size takes a size", "--cache-size", "all", "/x")
    refused("--readahead takes a size", "--readahead", "far", "/x")
    refused("--log-format takes text or json", "--log-format", "xml", "/x")
    refused("--rescan takes auto, or a number", "--rescan", "often", "/x")
    refused("--rescan", "--rescan", "604801", "/x")
    refused("--control takes an absolute path", "--control", "here.sock", "/x")
    refused("--metrics takes HOST:PORT", "--metrics", "9464", "/x")
    refused("--metrics takes HOST:PORT", "--metrics", "unix:here.sock", "/x")
    refused("", "/a", "/b", "/c")
    for size in ("0", "65536", "64KiB", "64kib", "1 GiB", "2GB", "1T"):
        accepted("--memory", size)
    accepted("--rescan", "auto", "--metrics", ":9464", "--control", "/run/x.sock")
    accepted("--rescan=0", "--metrics=unix:/run/m", "--control=none")
    accepted("--cache-dir", "/var/cache/x", "--cache-size", "1GiB", "--cache=always", "--readahead", "0")
    accepted("--cache-dir", "none", "--cache-dir=none", "-q", "-v", "-f", "--jobs", "3", "--loop-threads=2", "--max-background", "65535")


def case_mount_options():
    for fstab in ("rw,noatime,dev,suid,exec,x-systemd.automount,_netdev,nofail", "ro,allow_other", "memory=1GiB,log-format=json",
                  "max_background=12,show_archives", "fsname=x", "", ",,"):
        accepted("-o", fstab)
    refused("does not know 'bogus'", "-o", "ro,bogus", "/x")
    refused("does not know 'unmount'", "-o", "unmount", "/x")
    refused("memory", "-o", "memory=x", "/x")
    refused("needs a value", "-o", "memory", "/x")
    refused("exclude each other", "-o", "allow_root,allow_other", "/x")


def case_environment():
    accepted(BREVIS_MEMORY="1GiB", BREVIS_CACHE_DIR="none", BREVIS_ALLOW_OTHER="no", BREVIS_CPU="scalar", BREVIS_UNHEARD_OF="1")
    refused("BREVIS_MEMORY takes a size", "/x", BREVIS_MEMORY="x")
    refused("BREVIS_ALLOW_OTHER takes yes or no", "/x", BREVIS_ALLOW_OTHER="perhaps")
    accepted(BREVIS_RESCAN="30", BREVIS_METRICS="[::1]:9464", BREVIS_CONTROL="none")
    refused("BREVIS_CONTROL takes an absolute path", "/x", BREVIS_CONTROL="x")
    accepted("--memory", "1MiB", BREVIS_MEMORY="x")  # the command line wins: the other is not even looked at
    done = call(BREVIS_SOURCE="/nonexistent")
    expect_equal(done.returncode, 66, "exit code with BREVIS_SOURCE")


def case_configuration():
    file = WORK / "a.toml"

    def config(text):
        file.write_text(text)
        return ["--config", file]

    accepted(*config('memory = "1GiB"\njobs = 3\nallow-other = true\noption = ["noexec", "noatime"]\n# comment\n'))
    accepted(*config('rescan = 30\nmetrics = "127.0.0.1:9464"\ncontrol = "/run/brevis/models.sock"\n'))
    accepted(*config('rescan = "auto"\nmetrics = "none"\n'))
    refused("rescan", *config("rescan = -1\n"), "/x")
    refused("unknown option 'metric'", *config('metric = ":9464"\n'), "/x")
    refused("unknown option 'memroy'", *config('memroy = "1GiB"\n'), "/x")
    refused("unknown option 'unmount'", *config("unmount = true\n"), "/x")
    refused("unknown option 'section'", *config('[section]\nmemory = 1\n'), "/x")
    refused("line 2", *config('memory = "1GiB"\njobs = = 3\n'), "/x")
    refused("jobs", *config("jobs = 1.5\n"), "/x")
    refused("takes a number", *config("jobs = -1\n"), "/x")
    accepted("--jobs", "2", *config('memory = "1GiB"'), BREVIS_MEMORY="2GiB")
    done = call(*config('source = "/nonexistent"\nmountpoint = "/also"\n'))
    expect(done.returncode == 66, f"source from the file: {done}")
    done = call("--config", "/nonexistent.toml", "/x")
    expect(done.returncode == 66 and "/nonexistent.toml" in done.stderr, f"a missing file: {done}")
    done = call("--unmount", *config(f'source = "/a"\nmountpoint = "{WORK}"\n'))
    expect(done.returncode == 66 and str(WORK) in done.stderr, f"--unmount by the file: {done}")


if __name__ == "__main__":
    harness.run(globals(), fuse=False)
