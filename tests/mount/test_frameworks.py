# SPDX-License-Identifier: Apache-2.0
"""Frameworks that know nothing of Brevis read weights from a mount: numpy.memmap and PyTorch.

test_frameworks.py numpy|torch: skipped (77) where the framework is missing, unless CI=true.
"""
# Z03: unmodified readers get the original's values
import gc
import json
import mmap
import struct

import harness
from harness import WORK, Mount, expect, expect_equal



def tensors_of(path):
    """{name: (dtype, shape, offset in the file, length)} from a safetensors header, as any reader does it."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], 8 + length + t["data_offsets"][0], t["data_offsets"][1] - t["data_offsets"][0])
            for name, t in header.items()}


def case_numpy():
    try:
        import numpy
    except ImportError:
        harness.skip("numpy is not installed (python3-numpy)")
    types = {"F32": numpy.dtype("<f4"), "F16": numpy.dtype("<f2"), "BF16": numpy.dtype("<u2"), "U8": numpy.dtype("u1")}
    for dtype in ("F32", "F16", "BF16"):
        folder, name, data = harness.packed_model(f"numpy.{dtype}", mib=4, dtype=dtype)
        with Mount(folder, WORK / "mnt", ["--memory", "4MiB"]) as mount:
            path = mount.at / name
            for tensor, (kind, shape, offset, length) in tensors_of(path).items():
                for mode in ("r", "c"):  # shared, and copy on write
                    array = numpy.memmap(path, dtype=types[kind], mode=mode, offset=offset, shape=tuple(shape))
                    want = numpy.frombuffer(data, dtype=types[kind], count=length // types[kind].itemsize, offset=offset).reshape(shape)
                    expect(numpy.array_equal(array.view(f"u{types[kind].itemsize}"), want.view(f"u{types[kind].itemsize}")),
                           f"{dtype} {tensor} differs by numpy.memmap mode {mode}")
                    if mode == "c" and array.size:
                        array[(0,) * array.ndim] = 1
            whole = numpy.fromfile(path, dtype="u1")
            expect_equal(whole.tobytes(), data, "numpy.fromfile")
            del array, whole


def case_torch():
    try:
        import torch
    except ImportError:
        harness.skip("PyTorch is not installed (python3-torch)")
    folder, name, data = harness.packed_model("torch", mib=8)
    types = {"BF16": torch.bfloat16, "F32": torch.float32, "U8": torch.uint8}
    with Mount(folder, WORK / "mnt", ["--memory", "4MiB"]) as mount:
        path = mount.at / name
        tensors = tensors_of(path)
        with open(path, "rb") as file:
            view = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        # as loaders do it: a storage over the whole mapped file, tensors at their offsets
        storage = torch.UntypedStorage.from_file(str(path), False, len(data)) if hasattr(torch, "UntypedStorage") else None
        for tensor, (kind, shape, offset, length) in tensors.items():
            if length == 0:
                continue
            want = torch.frombuffer(bytearray(data[offset:offset + length]), dtype=torch.uint8)
            width = torch.tensor([], dtype=types[kind]).element_size()
            got = torch.frombuffer(view, dtype=types[kind], count=length // width, offset=offset).reshape(shape)
            expect(torch.equal(got.contiguous().view(torch.uint8).flatten(), want), f"{tensor} differs by torch.frombuffer")
            if storage is not None:
                part = torch.tensor([], dtype=torch.uint8).set_(storage, offset, (length,))
                expect(torch.equal(part, want), f"{tensor} differs by UntypedStorage.from_file")
        # and it computes: a product of mounted BF16 weights equals that of the original's
        kind, shape, offset, length = tensors["layer.0.weight"]
        mounted = torch.frombuffer(view, dtype=types[kind], count=length // 2, offset=offset).reshape(shape).float()
        original = torch.frombuffer(bytearray(data[offset:offset + length]), dtype=types[kind]).reshape(shape).float()
        ones = torch.ones(shape[1])
        expect(torch.equal(mounted @ ones, original @ ones), "a product differs")
        del got, mounted, storage
        gc.collect()
        try:
            view.close()
        except BufferError:
            pass  # a tensor still looks at it; the process lets go at its end
        del view
        gc.collect()


if __name__ == "__main__":
    harness.run(globals())
