# SPDX-License-Identifier: Apache-2.0
"""The demo's model, real weights where npm can bring them, read from a mount by numpy and PyTorch.

test_real_weights.py MAKE_MODEL. Skipped (77) where a framework is missing, unless CI=true.
"""
# Z03: real weights, as published and as BF16
import hashlib
import subprocess
import sys

import harness
from harness import WORK, Mount, expect, expect_equal
from test_frameworks import tensors_of

MAKE_MODEL = sys.argv.pop(1)


def case_real_weights():
    try:
        import numpy
        import torch
    except ImportError as missing:
        harness.skip(str(missing))
    plain, packed = WORK / "plain", WORK / "packed"
    made = subprocess.run([sys.executable, MAKE_MODEL, plain], capture_output=True, text=True, check=True, timeout=200)
    print(made.stdout.strip())
    harness.pack(plain, packed)
    with Mount(packed, WORK / "mnt") as mount:
        for name, kind, low in (("model.fp32.safetensors", torch.float32, 0.9), ("model.safetensors", torch.bfloat16, 0.75)):
            size, stored = (plain / name).stat().st_size, (packed / (name + ".brv")).stat().st_size
            expect(stored < low * size, f"{name}: {size} bytes became {stored}")
            tensors = tensors_of(mount.at / name)
            expect_equal(tensors, tensors_of(plain / name), "header")
            whole = [numpy.memmap(folder / name, "u1", "c") for folder in (plain, mount.at)]
            for tensor, (_, shape, offset, length) in tensors.items():
                a, b = (torch.from_numpy(w[offset:offset + length]).view(kind).reshape(shape) for w in whole)
                expect(torch.equal(a, b), f"{name}: {tensor} differs")
                if len(shape) == 2:
                    row = torch.ones(shape[1])
                    expect(torch.equal(a.float() @ row, b.float() @ row), f"{name}: a product of {tensor} differs")
            expect_equal(hashlib.sha256((mount.at / name).read_bytes()).hexdigest(),
                         hashlib.sha256((plain / name).read_bytes()).hexdigest(), name)
            del whole, a, b


if __name__ == "__main__":
    harness.run(globals())
