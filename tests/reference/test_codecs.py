# SPDX-License-Identifier: Apache-2.0
"""The reference decoder gives the words of every case, and refuses what was cut or lengthened.  test_codecs.py CASES"""
import subprocess
import sys

import brevis_codecs

seen = {}
for line in subprocess.run([sys.argv[1]], check=True, capture_output=True, text=True).stdout.splitlines():
    codec, width, count, *blobs = line.split()
    codec, width, count = int(codec), int(width), int(count)
    table, payload, expected = (bytes.fromhex(blob.strip("-")) for blob in blobs)
    lane = brevis_codecs.lane_bytes(width)
    where = f"codec {codec}, width {width}, {count} words"
    words = brevis_codecs.decode(codec, width, count, payload, table)
    assert b"".join(word.to_bytes(lane, "little") for word in words) == expected, where
    if count <= 300:
        for bad in (payload[:-1] if payload else b"\0", payload + b"\0"):
            try:
                brevis_codecs.decode(codec, width, count, bad, table)
            except brevis_codecs.Corrupt:
                continue
            raise AssertionError(f"{where}: damage not seen")
    seen[codec] = seen.get(codec, 0) + 1
assert set(seen) == set(brevis_codecs.CODECS), seen
print(f"{sum(seen.values())} cases: {seen}")
