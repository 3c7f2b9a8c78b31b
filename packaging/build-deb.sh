#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/.."

usage() {
  cat <<'END'
usage: packaging/build-deb.sh [--install] [TARGET]

Builds the Debian packages brevis, libbrevis0, libbrevis-dev and python3-brevis
of this checkout, as it is, into TARGET (default: build-deb). The version is
that of meson.build; the changelog of the package is made from it.
  --install  install the packages needed for building first (as root)
END
}

install=no target=build-deb
while [ $# -gt 0 ]; do
  case $1 in
    --help) usage; exit 0 ;;
    --install) install=yes ;;
    -*) usage >&2; exit 2 ;;
    *) target=$1 ;;
  esac
  shift
done
if [ "$install" = yes ]; then
  tools/dev/install_packages.sh build run
  command -v dh >/dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends debhelper
fi
command -v dh >/dev/null || { echo "debhelper is missing: packaging/build-deb.sh --install" >&2; exit 69; }

version=$(sed -n "s/^  version: '\([^']*\)'.*/\1/p" meson.build)
mkdir -p "$target"
target=$(realpath "$target")
work=$target/work  # always the same, so that a compiler cache knows the paths
rm -rf "$work"
trap 'rm -rf "$work"' EXIT
tree=$work/brevis-$version
mkdir -p "$tree"
if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  git ls-files -z | xargs -0 tar c --ignore-failed-read 2>/dev/null | tar x -C "$tree"
  date=$(git log -1 --format=%cD)
else
  cp -R include src fs tools tests docs packaging meson.build meson_options.txt README.md LICENSE "$tree"
  date=$(LC_ALL=C date -R -r meson.build)
fi
cp -R packaging/debian "$tree/debian"
cat >"$tree/debian/changelog" <<END
brevis ($version) unstable; urgency=medium

  * See /usr/share/doc/brevis/CHANGES.md.gz (docs/CHANGES.md in the sources).

 -- Brevis developers <brevis@localhost>  $date
END
[ ! -d /usr/lib/ccache ] || export PATH=/usr/lib/ccache:$PATH
if command -v ccache >/dev/null; then
  # debhelper gives the build a home of its own, where a cache would begin empty and go with the tree.
  CCACHE_DIR=${CCACHE_DIR:-$(ccache -k cache_dir)} CCACHE_MAXSIZE=${CCACHE_MAXSIZE:-$(ccache -k max_size)}
  export CCACHE_DIR CCACHE_MAXSIZE
fi
(cd "$tree" && DEB_BUILD_OPTIONS=${DEB_BUILD_OPTIONS-"parallel=2 noautodbgsym"} dpkg-buildpackage -b -us -uc >"$target/build.log" 2>&1) ||
  { tail -n 40 "$target/build.log" >&2; echo "the whole log is $target/build.log" >&2; exit 1; }
rm -f "$target"/*.deb
cp "$work"/*.deb "$target"
ls -1 "$target"/*.deb
