# SPDX-License-Identifier: Apache-2.0
"""The systemd units, held to what would hide or break a mount.  test_units.py ROOT"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
SYSTEM = ROOT / "packaging/systemd/brevis-mount@.service"
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

if shutil.which("systemd-analyze"):
    for unit, scope in ((SYSTEM, "--system"), (USER, "--user")):
        with tempfile.TemporaryDirectory() as folder:
            # programs that are not installed are no fault of the unit
            text = unit.read_text().replace("/usr/sbin/brevis-mount", "/bin/true")
            copy = pathlib.Path(folder, "brevis-mount@test.service")
            copy.write_text(text)
            done = subprocess.run(["systemd-analyze", scope, "--man=no", "verify", copy], capture_output=True, text=True, check=False,
                                  env={"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": folder, "HOME": folder})
            ours = [line for line in done.stderr.splitlines() if "brevis-mount@" in line]
            problems += [f"systemd-analyze: {line}" for line in ours]

print("\n".join(problems) if problems else "the units give no namespace and tell when they are ready")
sys.exit(bool(problems))
