# SPDX-License-Identifier: Apache-2.0
"""Writes a small ONNX model whose weights are tensors of a safetensors file beside it (external data).

The model: product = input x `matrix` (F32, K x N), copy = `vector` as it is. Protocol buffers by hand: a field is its
number and kind, then a varint or a length and bytes.
"""
FLOAT = 1  # ONNX's number of the element type
EXTERNAL = 1


def varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out + bytes([value]))


def number(field, value):
    return varint(field << 3) + varint(value)


def message(field, content):
    content = content.encode() if isinstance(content, str) else content
    return varint(field << 3 | 2) + varint(len(content)) + content


def external_tensor(name, shape, location, offset, length):
    entries = b"".join(message(13, message(1, key) + message(2, str(value)))
                       for key, value in (("location", location), ("offset", offset), ("length", length)))
    return b"".join(number(1, d) for d in shape) + number(2, FLOAT) + message(8, name) + entries + number(14, EXTERNAL)


def value_info(name, shape):
    dims = b"".join(message(1, number(1, d)) for d in shape)
    return message(1, name) + message(2, message(1, number(1, FLOAT) + message(2, dims)))


def node(kind, inputs, outputs):
    return b"".join(message(1, i) for i in inputs) + b"".join(message(2, o) for o in outputs) + message(4, kind)


def model(location, matrix, vector):
    """matrix, vector: (shape, offset in the file, length)."""
    (k, n), (length,) = matrix[0], vector[0]
    graph = (message(1, node("MatMul", ["input", "matrix"], ["product"])) +
             message(1, node("Identity", ["vector"], ["copy"])) + message(2, "mounted") +
             message(5, external_tensor("matrix", matrix[0], location, *matrix[1:])) +
             message(5, external_tensor("vector", vector[0], location, *vector[1:])) +
             message(11, value_info("input", [1, k])) + message(12, value_info("product", [1, n])) +
             message(12, value_info("copy", [length])))
    return number(1, 8) + message(7, graph) + message(8, number(2, 13))  # IR version 8, operators of set 13
