# SPDX-License-Identifier: Apache-2.0
"""The examples for Slurm and Kubernetes do what they say: their own command lines, run without either.
test_examples.py PACKAGING"""
import os
import pathlib
import re
import signal
import subprocess
import sys

import harness
from harness import MOUNT, PACK, TOOL, WORK, expect, expect_equal, until

PACKAGING = pathlib.Path(sys.argv.pop(1))
PROGRAMS = WORK / "programs"


def environment(**more):
    """Without a scheduler's; srun runs what it is given, once."""
    PROGRAMS.mkdir(exist_ok=True)
    srun = PROGRAMS / "srun"
    srun.write_text('#!/bin/bash\nwhile [[ $1 == -* ]]; do shift; done\nexec "$@"\n')
    srun.chmod(0o755)
    paths = [str(PROGRAMS), *(os.path.dirname(p) for p in (PACK, TOOL, MOUNT)), os.environ["PATH"]]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("BREVIS_", "SLURM_"))}
    return {**clean, **harness.sanitizer_environment(), "PATH": ":".join(paths), **more}


def run(*command, **more):
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=200, check=False, env=environment(**more))
    return done.returncode, done.stdout, done.stderr


def models(folder, count=5):
    """{name: bytes} of a tree of models."""
    out = {f"m{i}/model.safetensors": harness.make_model(folder / f"m{i}/model.safetensors", mib=1, seed=i) for i in range(count)}
    (folder / "config.json").write_text("{}\n")
    return out


def whole(packed, originals):
    expect_equal(sorted(str(p.relative_to(packed)) for p in packed.rglob("*.brv")), sorted(name + ".brv" for name in originals), "archives")
    for name, data in originals.items():
        got = subprocess.run([TOOL, "cat", packed / (name + ".brv")], capture_output=True, check=False, timeout=60).stdout
        expect(got == data, name)
    expect((packed / "config.json").exists(), "small files are missing")


def below_work():
    return [line.split()[1] for line in pathlib.Path("/proc/mounts").read_text().splitlines() if line.split()[1].startswith(str(WORK))]


def case_slurm_serve():
    originals = models(WORK / "serve")
    harness.pack(WORK / "serve", WORK / "served")
    job = {"SLURM_JOB_ID": "17", "TMPDIR": str(WORK / "node")}
    (WORK / "node").mkdir()
    serve = PACKAGING / "slurm/serve.sbatch"
    code, _, errors = run("bash", serve, WORK / "served", "sh", "-c", f'diff -r "$BREVIS_MODELS" {WORK}/serve', **job)
    expect_equal((code, below_work()), (0, []), errors)
    # The command's own failure is the job's, and nothing stays behind.
    code, _, errors = run("bash", serve, WORK / "served", "sh", "-c", "exit 9", **job)
    expect_equal((code, below_work(), os.listdir(WORK / "node")), (9, [], []), errors)
    # Slurm ends a job by SIGTERM to all of its processes.
    running = subprocess.Popen(["bash", serve, WORK / "served", "sh", "-c", "touch $TMPDIR/began; sleep 100"], env=environment(**job),
                               start_new_session=True, stderr=subprocess.DEVNULL)
    until((WORK / "node/began").exists, "the command's start")
    os.killpg(running.pid, signal.SIGTERM)
    running.wait(60)
    until(lambda: not below_work(), "the end of the mount")
    expect_equal(len(originals), 5, "models")


def case_slurm_pack():
    originals = models(WORK / "slurm")
    pack = PACKAGING / "slurm/pack.sbatch"
    array = {"SLURM_ARRAY_TASK_MIN": "0", "SLURM_ARRAY_TASK_MAX": "2", "SLURM_ARRAY_TASK_COUNT": "3", "SLURM_CPUS_PER_TASK": "1"}
    for task in ("0", "1", "2", "1"):  # one of them again: it leaves what is packed
        code, _, errors = run("bash", pack, WORK / "slurm", WORK / "slurm-packed", SLURM_ARRAY_TASK_ID=task, **array)
        expect_equal(code, 0, errors)
    whole(WORK / "slurm-packed", originals)
    for wrong in ({"SLURM_ARRAY_TASK_MIN": "1"}, {"SLURM_ARRAY_TASK_COUNT": "2"}):
        code, _, errors = run("bash", pack, WORK / "slurm", WORK / "none", SLURM_ARRAY_TASK_ID="1", **{**array, **wrong})
        expect(code == 2 and "0-N" in errors and not (WORK / "none").exists(), f"{wrong}: {code} {errors}")


def of(document, pattern):
    return re.search(pattern, (PACKAGING / "kubernetes" / document).read_text(), re.M).group(1)


def case_kubernetes_mount():
    originals = models(WORK / "node-models")
    archives, shared = WORK / "archives", WORK / "shared"
    harness.pack(WORK / "node-models", archives)
    shared.mkdir()
    here = lambda text: text.replace("/archives", str(archives)).replace("/shared", str(shared)).replace("/usr/sbin/", "")
    place = here(of("daemonset.yaml", r'^ +command: \[sh, -c, "(.*)"\]'))
    start = here(of("daemonset.yaml", r"^ +args: \[(.*)\]")).split(", ")
    stop = here(of("daemonset.yaml", r"^ +preStop:\n +exec: \{command: \[(.*)\]\}")).split(", ")
    ready = here(of("daemonset.yaml", r"^ +readinessProbe:\n +exec: \{command: \[(.*)\]\}")).split(", ")
    for end in ("stopped", "killed", "stopped"):
        code, _, errors = run("sh", "-c", place)
        expect_equal(code, 0, errors)
        daemon = subprocess.Popen(["brevis-mount", *start], env=environment(), stderr=subprocess.DEVNULL)
        # The kernel may believe for a second what it knew of the mount that was killed.
        until(lambda: run(*ready)[0] == 0 and reads(shared / "models/config.json"), "ready", 30)
        expect_equal(below_work(), [str(shared / "models")], "mounts")
        for name, data in originals.items():
            expect((shared / "models" / name).read_bytes() == data, name)
        if end == "killed":  # the next start finds the dead mount
            daemon.kill()
        else:
            code, _, errors = run(*stop)
            expect_equal(code, 0, errors)
        daemon.wait(30)
    expect_equal(below_work(), [], "mounts")


def reads(path):
    try:
        return path.read_text() == "{}\n"
    except OSError:
        return False


def case_kubernetes_pack():
    originals = models(WORK / "claim", count=9)
    script = of("pack-job.yaml", r"^ +args: \['(.*)'\]").replace("/models", str(WORK / "claim")).replace("/archives", str(WORK / "claimed"))
    parts = int(of("pack-job.yaml", r"^ +completions: (\d+)"))
    expect_equal(script.count(f"/{parts}\""), 1, "parts of --shard and of the job")
    for index in [*range(parts), 3]:
        code, _, errors = run("sh", "-c", script, JOB_COMPLETION_INDEX=str(index))
        expect_equal(code, 0, errors)
    whole(WORK / "claimed", originals)


harness.run(globals())
