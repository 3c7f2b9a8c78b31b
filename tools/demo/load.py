#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Maps a safetensors file and adds up its weights: PyTorch, numpy or plain Python,
whichever is there.

usage: tools/demo/load.py FILE
"""
import array
import json
import mmap
import sys
import time
import warnings


def torch_sum():
    import torch  # pylint: disable=import-outside-toplevel
    warnings.filterwarnings("ignore")  # the mapping is not writable, and nobody writes
    types = {"BF16": torch.bfloat16, "F16": torch.float16, "F32": torch.float32}
    return "PyTorch", lambda data, dtype: torch.frombuffer(data, dtype=types[dtype]).float().abs().sum().item()


def numpy_sum():
    import numpy  # pylint: disable=import-outside-toplevel

    def total(data, dtype):
        if dtype == "BF16":
            values = (numpy.frombuffer(data, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
        else:
            values = numpy.frombuffer(data, {"F16": numpy.float16, "F32": numpy.float32}[dtype])
        return float(numpy.abs(values, dtype=numpy.float32).sum())
    return "numpy", total


def plain_sum():
    def total(data, dtype):
        if dtype == "F16":
            return sum(map(abs, data.cast("B").cast("e")))
        if dtype == "BF16":
            data = array.array("I", (word << 16 for word in data.cast("B").cast("H"))).tobytes()
        return sum(map(abs, memoryview(data).cast("B").cast("f")))
    return "plain Python", total


def reader():
    for way in (torch_sum, numpy_sum):
        try:
            return way()
        except ImportError:
            pass
    return plain_sum()


def main(path):
    name, total = reader()
    began = time.time()
    with open(path, "rb") as file:
        data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    start = 8 + int.from_bytes(data[:8], "little")
    found, tensors = 0.0, 0
    for key, entry in json.loads(bytes(data[8:start])).items():
        if key == "__metadata__" or entry["dtype"] not in ("BF16", "F16", "F32"):
            continue
        begin, end = entry["data_offsets"]
        if begin < end:
            found += total(data[start + begin:start + end], entry["dtype"])
            tensors += 1
    print(f"{name}: {tensors} tensors, sum of all absolute weights {found:.6g}, in {time.time() - began:.3f} s")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(__doc__.strip(), file=sys.stdout if "--help" in sys.argv else sys.stderr)
        sys.exit(0 if "--help" in sys.argv else 2)
    main(sys.argv[1])
