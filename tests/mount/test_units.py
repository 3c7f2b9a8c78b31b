# SPDX-License-Identifier: Apache-2.0
"""The systemd units, held to what would hide or break a mount.  test_units.py ROOT"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
SYSTEM = ROOT / "packaging/systemd/brevis-mount@.service"
SCRUB = ROOT / "packaging/systemd/brevis-scrub@.service"
TIMER = ROOT / "packaging/systemd/brevis-scrub@.timer"
USER = ROOT / "packaging/systemd/user/brevis-mount@.service"
problems = []

# S04: each of these gives a service a mount namespace of its own, which hides the mount from everybody else
NAMESPACE = """ProtectSystem ProtectHome PrivateTmp PrivateDevices PrivateMounts PrivateUsers PrivateNetwork PrivateIPC
    ProtectKernelTunables ProtectKernelModules ProtectKernelLogs ProtectControlGroups ProtectProc ProcSubset ProtectHostname
    ProtectClock ReadOnlyPaths ReadWritePaths InaccessiblePaths ExecPaths NoExecPaths BindPaths BindReadOnlyPaths
    TemporaryFileSystem RootDirectory RootImage MountImages ExtensionImages MountFlags MountAPIVFS DynamicUser
    NetworkNamespacePath JoinsNamespaceOf LoadCredential SetCredential LogNamespace""".split()
# S06: each of these forbids the set-uid fusermount3, in a user's manager at least
NO_SETUID = """NoNewPrivileges SystemCallFilter SystemCallArchitectures SystemCallLog RestrictAddressFamilies RestrictNamespaces
    RestrictRealtime RestrictSUIDSGID MemoryDenyWriteExecute LockPersonality CapabilityBoundingSet AmbientCapabilities
    SecureBits DeviceAllow DevicePolicy User Group""".split()


def directives(path):
    lines = [line.strip() for line in path.read_text().splitlines()]
    return [tuple(line.split("=", 1)) for line in lines if "=" in line and not line.startswith("#")]


for unit, forbidden in ((SYSTEM, NAMESPACE), (USER, NAMESPACE + NO_SETUID)):
    said = directives(unit)
    names = [name for name, _ in said]
    problems += [f"{unit.name}: {name} is forbidden" for name in names if name in forbidden]
    value = dict(said)
    # S08: dependants start when the mount answers; a hanging or dead daemon is noticed and its mount cleared
    for name, want in (("Type", "notify"), ("Restart", "on-failure"), ("WatchdogSec", None), ("ExecStopPost", None)):
        if name not in value or (want and value[name] != want):
            problems.append(f"{unit.parent.name}/{unit.name}: {name} must be {want or 'there'}")
    for name in ("ExecStart", "ExecStopPost"):
        if "--config" not in value.get(name, ""):
            problems.append(f"{unit.name}: {name} does not name the configuration")
    if "--foreground" not in value["ExecStart"] or "--unmount" not in value["ExecStopPost"]:
        problems.append(f"{unit.name}: ExecStart stays in front, ExecStopPost unmounts")
if "@mount" not in dict(directives(SYSTEM)).get("SystemCallFilter", "@mount"):
    problems.append("the system unit's filter must let mount(2) through")

# S10: an ordinary user cannot stop a .mount unit of FUSE
problems += [f"{p.name}: no unit of this kind" for p in (ROOT / "packaging").rglob("*") if p.suffix in (".mount", ".automount")]

# The scrub reads and nothing else; what it runs gets the configuration of the mount.
scrub = dict(directives(SCRUB))
if scrub.get("Type") != "oneshot" or scrub.get("ProtectSystem") != "strict" or "%i.toml" not in scrub.get("ExecStart", ""):
    problems.append("the scrub runs once, writes nothing, and knows its configuration")
if "OnCalendar" not in dict(directives(TIMER)):
    problems.append("the timer has no calendar")
for line, want in (('source = "/srv/a b"', "/srv/a b"), ("  source='/x' # there", "/x"), ('memory = "1GiB"', None)):
    with tempfile.TemporaryDirectory() as folder:
        config, program = pathlib.Path(folder, "n.toml"), pathlib.Path(folder, "brevis")
        config.write_text("# source = \"/no\"\n" + line + "\n")
        program.write_text("#!/bin/sh\nfor last; do :; done; echo \"$last\"\n")
        program.chmod(0o755)
        done = subprocess.run([ROOT / "packaging/systemd/scrub", config], capture_output=True, text=True, check=False,
                              env={"PATH": f"{folder}:/usr/bin:/bin"})
        if (done.stdout.strip() or None) != want or (done.returncode == 0) != (want is not None):
            problems.append(f"scrub of '{line}': {done.stdout}{done.stderr}")

if shutil.which("systemd-analyze"):
    for unit, scope in ((SYSTEM, "--system"), (USER, "--user"), (SCRUB, "--system"), (TIMER, "--system")):
        with tempfile.TemporaryDirectory() as folder:
            # programs that are not installed are no fault of the unit
            text = unit.read_text().replace("/usr/sbin/brevis-mount", "/bin/true").replace("/usr/lib/brevis/scrub", "/bin/true")
            copy = pathlib.Path(folder, unit.name.replace("@", "@test"))
            copy.write_text(text)
            if unit is TIMER:
                pathlib.Path(folder, "brevis-scrub@test.service").write_text("[Service]\nExecStart=/bin/true\n")
            done = subprocess.run(["systemd-analyze", scope, "--man=no", "verify", copy], capture_output=True, text=True, check=False,
                                  env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": folder, "HOME": folder})
            ours = [line for line in done.stderr.splitlines() if "brevis-" in line]
            problems += [f"systemd-analyze: {line}" for line in ours]

print("\n".join(problems) if problems else "the units give no namespace and tell when they are ready")
sys.exit(bool(problems))
