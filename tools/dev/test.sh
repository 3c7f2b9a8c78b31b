#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/../.."

usage() {
  cat <<'EOF'
usage: tools/dev/test.sh [options] [-- MESON-TEST-ARGUMENTS]

Builds Brevis and runs all its tests: installs the Debian packages it needs,
configures, compiles, tests. On a fresh checkout nothing else is needed.
  --build DIR       build folder (default: build, or build-SANITIZER)
  --sanitize WHICH  address,undefined or thread
  --scalar          run with BREVIS_CPU=scalar
  --no-install      take the packages as they are
  --needed          build only what the tests named after -- need
EOF
}

build="" sanitize="" install=yes needed=no
while [ $# -gt 0 ]; do
  case $1 in
    --help) usage; exit 0 ;;
    --build) build=$2; shift ;;
    --sanitize) sanitize=$2; shift ;;
    --scalar) export BREVIS_CPU=scalar ;;
    --no-install) install=no ;;
    --needed) needed=yes ;;
    --) shift; break ;;
    *) usage >&2; exit 2 ;;
  esac
  shift
done
[ -n "$build" ] || build=build${sanitize:+-${sanitize//,/-}}

[ "$install" = no ] || tools/dev/install_packages.sh build run test
setup=()
# Line tables are enough for reports, and all of -g takes half as long again to compile. b_lundef: the sanitizers' symbols
# are found at run time only.
more=-g1
# Checks that make compiling several times slower and find what the address sanitizer finds as well.
[ "$sanitize" != address,undefined ] || more="$more -fno-sanitize=vptr,null,object-size -fno-sanitize-recover=undefined"
[ -z "$sanitize" ] || setup=(-Doptimization=1 "-Db_sanitize=$sanitize" -Db_lundef=false "-Dcpp_args=$more")
if [ -e "$build/build.ninja" ]; then
  meson configure "$build" -Dtests=true  # the demo builds without
else
  meson setup "${setup[@]}" "$build"
fi
rebuild=()
[ "$needed" = yes ] || { ninja -C "$build"; rebuild=(--no-rebuild); }

# onnxruntime is not in Debian; its npm package brings the CPU library along. Without it that one test is skipped,
# which CI does not accept.
node=$build/node
if [ -z "$sanitize" ] && [ ! -e "$node/node_modules/onnxruntime-node" ] && command -v npm >/dev/null; then
  mkdir -p "$node"
  ONNXRUNTIME_NODE_INSTALL=skip npm install --prefix "$node" --silent --no-audit --no-fund onnxruntime-node@1.22.0 \
    >"$node/install.log" 2>&1 || echo "npm could not install onnxruntime-node: see $node/install.log"
fi

# What takes many minutes is run by its name: -- --suite long
[ $# -gt 0 ] || set -- --no-suite long

multiplier=${sanitize:+5}
exec meson test -C "$build" "${rebuild[@]}" --print-errorlogs --timeout-multiplier "${multiplier:-1}" "$@"
