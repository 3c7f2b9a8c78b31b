#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/../.."

case ${1-} in
  --help)
    cat <<'EOF'
usage: tools/dev/accept.sh [BUILD]
       tools/dev/accept.sh --ratio [BUILD]

Runs the short tests with goldens accepted: a golden that is missing in
tests/golden/v1 is written; one that exists is compared and never changed.
Look at `git status tests/golden` afterwards and commit what belongs there.

  --ratio   write the ratio ledger anew instead, tests/bench/ratio.csv: sizes
            and programs as they are now. Look at the difference it shows.
EOF
    exit 0 ;;
  --ratio)
    build=${2:-build}
    ninja -C "$build" tests/bench/test_ratio
    BREVIS_ACCEPT=ratio meson test -C "$build" --no-rebuild --print-errorlogs ratio-ledger
    git diff tests/bench/ratio.csv
    exit 0 ;;
esac
build=${1:-build}

ninja -C "$build"
BREVIS_ACCEPT=1 meson test -C "$build" --no-rebuild --print-errorlogs --suite short
git status --short tests/golden
