#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/../.."

if [ "${1-}" = --help ]; then
  cat <<'EOF'
usage: tools/dev/accept.sh [BUILD]

Runs the short tests with goldens accepted: a golden that is missing in
tests/golden/v1 is written; one that exists is compared and never changed.
Look at `git status tests/golden` afterwards and commit what belongs there.
EOF
  exit 0
fi
build=${1:-build}

ninja -C "$build"
BREVIS_ACCEPT=1 meson test -C "$build" --no-rebuild --print-errorlogs --suite short
git status --short tests/golden
