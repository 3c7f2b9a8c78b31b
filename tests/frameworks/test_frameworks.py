# SPDX-License-Identifier: Apache-2.0
"""An unmodified framework reads a model from a mount and computes what it computes from the plain files.

test_frameworks.py numpy|torch|onnxruntime BREVIS_PACK BREVIS_MOUNT SOURCE_ROOT NODE_FOLDER
"""
import json
import mmap
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile

WHICH, PACK, MOUNT, ROOT, NODE = sys.argv[1:6]


def skip(reason):
    print(reason)
    sys.exit(1 if os.environ.get("CI") else 77)


def tensors_of(path):
    """{name: (dtype, shape, first byte, byte length)}, read through the file itself."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header = json.loads(file.read(length))
    header.pop("__metadata__", None)
    return {name: (t["dtype"], t["shape"], 8 + length + t["data_offsets"][0], t["data_offsets"][1] - t["data_offsets"][0])
            for name, t in header.items()}


def check_numpy(plain, mounted):
    import numpy
    kinds = {"F32": numpy.float32, "BF16": numpy.uint16}
    for name in ("model.fp32.safetensors", "model.safetensors"):
        there = tensors_of(mounted / name)
        assert there == tensors_of(plain / name)
        for tensor, (dtype, shape, offset, _) in there.items():
            a, b = (numpy.memmap(folder / name, kinds[dtype], "r", offset, tuple(shape)) for folder in (plain, mounted))
            assert a.tobytes() == b.tobytes(), tensor
            if dtype == "F32" and a.ndim == 2:
                assert numpy.array_equal(a @ a[0], b @ b[0]), tensor
        # A private writable mapping, as loaders that cast in place make it.
        _, shape, offset, _ = there[max(there, key=lambda t: there[t][3])]
        private = numpy.memmap(mounted / name, numpy.uint8, "c", offset, (64,))
        private[:] = 0
        assert not private.any()


def check_torch(plain, mounted):
    import torch
    kinds = {"F32": (torch.float32, 4), "BF16": (torch.bfloat16, 2)}

    def load(path):
        with open(path, "rb") as file:
            whole = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        tensors = {}
        for name, (dtype, shape, offset, size) in tensors_of(path).items():
            kind, width = kinds[dtype]
            tensors[name] = torch.frombuffer(whole, dtype=kind, offset=offset, count=size // width).reshape(shape)
        return tensors

    for name in ("model.fp32.safetensors", "model.safetensors"):
        a, b = load(plain / name), load(mounted / name)
        assert a.keys() == b.keys() and len(a) > 0
        for tensor in a:
            assert torch.equal(a[tensor], b[tensor]), tensor
        largest = max(a, key=lambda t: a[t].numel())
        row = torch.ones(a[largest].shape[-1], dtype=a[largest].dtype)
        assert torch.equal(a[largest] @ row, b[largest] @ row)


def field(number, payload):
    """A protobuf field: an integer, or bytes."""
    def varint(value):
        out = bytearray()
        while value > 127:
            out.append(value & 127 | 128)
            value >>= 7
        return bytes(out) + bytes([value])
    if isinstance(payload, int):
        return varint(number << 3) + varint(payload)
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def write_onnx(path, weights):
    """y = x * W, with W in the safetensors file beside the model. Gives the shape of W."""
    name, (_, shape, offset, size) = max(((n, t) for n, t in tensors_of(weights).items() if len(t[1]) == 2),
                                         key=lambda item: item[1][3])

    def entry(key, value):
        return field(13, field(1, key.encode()) + field(2, str(value).encode()))

    def tensor_value(label, dims):
        dimensions = b"".join(field(1, field(1, d)) for d in dims)
        return field(1, label) + field(2, field(1, field(1, 1) + field(2, dimensions)))
    initializer = (b"".join(field(1, d) for d in shape) + field(2, 1) + field(8, name.encode()) + field(14, 1) +
                   entry("location", weights.name) + entry("offset", offset) + entry("length", size))
    node = field(1, b"x") + field(1, name.encode()) + field(2, b"y") + field(4, b"MatMul")
    graph = (field(1, node) + field(2, b"g") + field(5, initializer) + field(11, tensor_value(b"x", [1, shape[0]])) +
             field(12, tensor_value(b"y", [1, shape[1]])))
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(2, 13)))
    return shape


def check_onnxruntime(plain, mounted):
    module = pathlib.Path(NODE, "node_modules/onnxruntime-node")
    if shutil.which("node") is None or not module.exists():
        skip(f"onnxruntime-node is not installed in {NODE}: tools/dev/test.sh does that")
    script = pathlib.Path(__file__).with_name("run_onnx.js")
    results = [subprocess.run(["node", script, module, folder / "model.onnx"], stdout=subprocess.PIPE, check=True).stdout
               for folder in (plain, mounted)]
    assert results[0] == results[1] and len(results[0]) > 100, results


def main():
    if not os.path.exists("/dev/fuse"):
        skip("/dev/fuse is missing")
    with tempfile.TemporaryDirectory(prefix="brevis-framework-") as name:
        work = pathlib.Path(name)
        subprocess.run([sys.executable, f"{ROOT}/tools/demo/make_model.py", work / "plain"], check=True)
        write_onnx(work / "plain/model.onnx", work / "plain/model.fp32.safetensors")
        subprocess.run([PACK, "-q", "--progress", "never", work / "plain", "-o", work / "packed"], check=True)
        (work / "mounted").mkdir()
        subprocess.run([MOUNT, work / "packed", work / "mounted"], check=True)
        try:
            {"numpy": check_numpy, "torch": check_torch, "onnxruntime": check_onnxruntime}[WHICH](
                work / "plain", work / "mounted")
        except ImportError as missing:
            skip(str(missing))
        finally:
            subprocess.run(["fusermount3", "-u", "-z", work / "mounted"], check=False)
    print(f"{WHICH} reads the same from the mount")


main()
