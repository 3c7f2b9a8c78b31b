# SPDX-License-Identifier: Apache-2.0
"""onnxruntime runs a model whose weights are a mounted safetensors file.  test_onnx.py NODE_MODULES

Needs node and the npm package onnxruntime-node (its CPU library is inside); skipped (77) without, unless CI=true.
"""
# Z03: an unmodified inference engine maps the mounted file
import base64
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys

import harness
import onnx_model
from harness import WORK, Mount, expect, expect_equal, weights

MODULES = sys.argv.pop(1)
K, N = 256, 192


def case_onnxruntime():
    if not shutil.which("node"):
        harness.skip("node is not installed")
    if not pathlib.Path(MODULES, "onnxruntime-node").exists():
        harness.skip(f"onnxruntime-node is not in {MODULES}: tools/dev/test.sh installs it")
    matrix, vector = weights("F32", K * N, "onnx matrix"), weights("F32", 300_000, "onnx vector")
    data = harness.safetensors([("first", "F32", [1000], weights("F32", 1000, "x")), ("matrix", "F32", [K, N], matrix),
                                ("vector", "F32", [300_000], vector)])
    model = onnx_model.model("model.safetensors", ([K, N], data.index(matrix), len(matrix)),
                             ([300_000], data.index(vector), len(vector)))
    plain, packed = WORK / "onnx/plain", WORK / "onnx/packed"
    plain.mkdir(parents=True)
    (plain / "model.safetensors").write_bytes(data)
    (plain / "model.onnx").write_bytes(model)
    harness.pack(plain, packed)
    expect(not (packed / "model.safetensors").exists(), "the weights were not packed")
    with Mount(packed, WORK / "mnt", ["--memory", "4MiB"]) as mount:
        done = subprocess.run(["node", pathlib.Path(__file__).with_name("run_onnx.js"), MODULES, mount.at / "model.onnx"],
                              capture_output=True, text=True, check=False, timeout=120, env={**os.environ, "K": str(K)})
        expect(done.returncode == 0, f"node gave {done.returncode}: {done.stderr[-2000:]}")
        got = json.loads(done.stdout)
        expect(base64.b64decode(got["copy"]) == vector, "the copied tensor differs")
        rows = list(struct.iter_unpack(f"<{N}f", matrix))
        want = [sum((i % 7 - 3) * row[j] for i, row in enumerate(rows)) for j in range(N)]
        worst = max(abs(a - b) for a, b in zip(got["product"], want))
        expect(worst < 1e-3, f"the product is off by {worst}")
        expect_equal(len(got["product"]), N, "outputs")


if __name__ == "__main__":
    harness.run(globals())
