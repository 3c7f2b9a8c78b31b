# SPDX-License-Identifier: Apache-2.0
"""The operators of relations between files, written from docs/format-programs.md alone: see brevis_operators.py."""
from brevis_codecs import Bytes, need
from brevis_operators import BOTH, MAPS, Operator, Unsupported, operator


def order_of(x, w):
    """The place of a sign-magnitude float among all of them."""
    return x + (1 << (w - 1)) if x < 1 << (w - 1) else (1 << w) - 1 - x


# function of combine: what it makes of p and q
COMBINE = {
    0: lambda p, q, w: p ^ q,
    1: lambda p, q, w: (p + q) % (1 << w),
    2: lambda p, q, w: (p - q) % (1 << w),
    3: lambda p, q, w: MAPS[6][0]((p + order_of(q, w)) % (1 << w), 0, w),
}


@operator(20, "combine")
class Combine(Operator):
    children, parameters, in_step = 2, 1, 2

    @staticmethod
    def gate(node):
        if node.parameters[0] not in COMBINE:
            raise Unsupported(f"combine {node.parameters[0]}")
        return [node.width] * 2

    @staticmethod
    def run(node, frame, n, m, streams):
        combine = COMBINE[node.parameters[0]]
        return [combine(p, q, node.width) for p, q in zip(*streams)]


@operator(21, "patch")
class Patch(Operator):
    children, counts, in_step = 3, 1, 1

    @staticmethod
    def gate(node):
        return [node.width, 20, node.width]

    @staticmethod
    def lengths(node, n, m):
        return [n, m, m]

    @staticmethod
    def run(node, frame, n, m, streams):
        out, gaps, words = streams
        at = -1
        for gap, word in zip(gaps, words):
            at += 1 + gap
            need(at < n, "patch: a place outside the frame")
            out[at] = word
        return out


@operator(23, "update")
class Update(Operator):
    children, parameters, counts, has_list, in_step = 5, 3, 3, True, 1

    @staticmethod
    def gate(node):
        function, shift, bits = node.parameters
        if function not in COMBINE:
            raise Unsupported(f"update {function}")
        need(2 <= bits <= 16 and shift + bits <= node.width, "update: field")
        return [node.width] * 5

    @staticmethod
    def entries(node):
        return 3

    @staticmethod
    def lengths(node, n, m):
        need(sum(m) <= n, "update: counts")
        return [n, *m, n - sum(m)]

    @staticmethod
    def run(node, frame, n, m, streams):
        function, shift, bits = node.parameters
        table, begins = Bytes(frame.table[node.number]), []
        for _ in range(3):
            begins.append(table.varint() + (begins[-1] + 1 if begins else 0))
        need(begins[-1] < 1 << bits and not table.rest(), "update: classes")
        base, *steps = streams
        left, out = [list(reversed(stream)) for stream in steps], []
        for q in base:
            field = q >> shift & (1 << bits) - 1
            words = left[sum(field >= begin for begin in begins)]
            need(words, "update: words of a class")
            p = words.pop()
            out.append(COMBINE[function](p if function == 0 else MAPS[4][0](p, 0, node.width), q, node.width))
        return out


@operator(22, "base")
class Base(Operator):
    place, children = BOTH, 0

    @staticmethod
    def gate(node):
        need(node.width in (8, 16, 32, 64), "base: width")
        return []

    @staticmethod
    def run(node, frame, n, m, streams):
        return frame.base_words(node, frame.first, frame.first + n)

    @staticmethod
    def read(node, reader, n, a, b):
        return reader.base_words(node, a, b)
