#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -eu

usage() {
  cat <<'EOF'
usage: tools/dev/install_packages.sh SET...

Installs the Debian packages of each SET that are not there yet:
  build  compiler, meson and the libraries that Brevis links
  run    what a mount needs (fusermount3) and the demo's python3
  test   doctest, google-benchmark, clang-format 14, programs whose reads are
         tested
  package  what builds Debian packages and tests them on a fresh system
Uses apt-get as root, or through sudo. Does nothing when all are installed.
EOF
}

declare -A packages=(
  [build]="g++ meson ninja-build pkg-config libexpected-dev libboost-dev libzstd-dev libxxhash-dev libssl-dev
    libfuse3-dev liblmdb-dev libcli11-dev libtomlplusplus-dev libspdlog-dev libfmt-dev nlohmann-json3-dev
    prometheus-cpp-dev"
  [run]="fuse3 python3"
  [test]="doctest-dev libbenchmark-dev clang-format-14 binutils git procps python3-numpy python3-torch"
  [package]="debhelper debootstrap systemd-container"
)

[ $# -gt 0 ] || { usage >&2; exit 2; }
wanted=""
for set in "$@"; do
  case $set in
    --help) usage; exit 0 ;;
    build | run | test | package) wanted="$wanted ${packages[$set]}" ;;
    *) usage >&2; exit 2 ;;
  esac
done
# Node may have come from elsewhere than Debian.
case " $* " in *" test "*) command -v npm >/dev/null || wanted="$wanted nodejs npm" ;; esac

missing=""
for package in $wanted; do
  dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0

sudo=""
if [ "$(id -u)" != 0 ]; then
  sudo=sudo
  command -v sudo >/dev/null || { echo "not root and no sudo; install by hand:$missing" >&2; exit 77; }
fi
echo "installing:$missing"
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # lists of words
if ! $sudo apt-get install -y --no-install-recommends $missing >/dev/null 2>&1; then
  $sudo apt-get update -qq
  $sudo apt-get install -y --no-install-recommends $missing >/dev/null
fi
