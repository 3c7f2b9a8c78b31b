#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# brevis-mount holds no code of the search.  test_no_synth.sh BREVIS_MOUNT PACK_LIBRARY
set -eu
mount=$1 pack=$2
# The pattern must find something where the search is used, or it would find nothing anywhere.
nm -C "$pack" | grep 'brevis::synth::' >/dev/null || { echo "$pack names no brevis::synth symbol"; exit 1; }
nm -C "$mount" >/dev/null
if nm -C "$mount" | grep 'brevis::synth::'; then
  echo "$mount holds code of brevis::synth" >&2
  exit 1
fi
