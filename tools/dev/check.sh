#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/../.."

if [ "${1-}" = --help ]; then
  cat <<'EOF'
usage: tools/dev/check.sh [BUILD]

The short tier, for every commit: layout, layers, build, and the tests of the
suite `short` (unit, laws, goldens, command lines). BUILD is the build folder
(default: build). Everything, mounted tests included: tools/dev/test.sh.
EOF
  exit 0
fi
build=${1:-build}

tools/dev/format.sh --check
tools/dev/check_layers.py
[ -e "$build/build.ninja" ] || meson setup "$build"
ninja -C "$build"
exec meson test -C "$build" --no-rebuild --print-errorlogs --suite short
