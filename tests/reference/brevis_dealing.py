# SPDX-License-Identifier: Apache-2.0
"""The operators that treat words by where they stand or by what came before, written from docs/format-programs.md alone:
see brevis_operators.py.
"""
import struct

from brevis_codecs import Bits, Bytes, need
from brevis_operators import Operator, Unsupported, operator


def step_lists(node, table):
    """The stored steps: one list an axis."""
    source, lists = Bits(table), []
    for count in node.parameters[3::2]:
        need(count <= 8 * len(table), "fewer bits than steps")
        k = source.get(4)
        need(k <= 13, "offset: Rice parameter")
        steps = []
        for _ in range(count):
            z = source.unary() << k | source.get(k)
            need(z < 8192, "offset: a step out of range")
            steps.append(-(z + 1) // 2 if z % 2 else z // 2)
        lists.append(steps)
    source.end()
    return lists


@operator(15, "offset")
class Offset(Operator):
    parameters, has_list = None, True

    @staticmethod
    def steps(node, frame, n):
        """2 + the sum of the steps, for each of the frame's words."""
        axes, lists = node.parameters[2:], step_lists(node, frame.table[node.number])
        return [2 + sum(a[i // s % len(a)] for s, a in zip(axes[::2], lists)) for i in range(frame.first, frame.first + n)]

    @staticmethod
    def moved(node, word, step):
        shift, bits = node.parameters[:2]
        mask = (1 << bits) - 1
        return word & ~(mask << shift) | ((word >> shift) + step & mask) << shift

    @staticmethod
    def gate(node):
        need(len(node.parameters) in (4, 6, 8, 10), "offset: parameters")
        shift, bits, *axes = node.parameters
        need(bits >= 1 and shift + bits <= node.width, "offset: field")
        need(all(1 <= stride <= 1 << 44 for stride in axes[::2]), "offset: stride")
        need(min(axes[1::2]) >= 2 and sum(axes[1::2]) <= 1 << 18, "offset: counts")
        return [node.width] * len(node.children)

    @staticmethod
    def entries(node):
        return sum(node.parameters[3::2])

    @staticmethod
    def run(node, frame, n, m, streams):
        return [Offset.moved(node, word, s // 4) for word, s in zip(streams[0], Offset.steps(node, frame, n))]


class Dealing(Operator):
    """Words dealt out to four children: three counts, and what is left."""
    children, parameters, counts, has_list = 4, None, 3, True

    @staticmethod
    def lengths(node, n, m):
        need(sum(m) <= n, f"{node.operator.name}: counts")
        return [*m, n - sum(m)]


@operator(17, "select")
class Select(Dealing):
    gate, entries = Offset.gate, Offset.entries

    @staticmethod
    def run(node, frame, n, m, streams):
        sums = Offset.steps(node, frame, n)
        for k in range(4):
            need(sum(s % 4 == k for s in sums) == len(streams[k]), "select: words of a class")
        nexts = [iter(stream) for stream in streams]
        return [Offset.moved(node, next(nexts[s % 4]), s // 4) for s in sums]


@operator(18, "context")
class Context(Dealing):
    @staticmethod
    def gate(node):
        need(len(node.parameters) in (5, 7, 9, 11), "context: parameters")
        function, shift, bits, *pairs = node.parameters
        if function not in (0, 1):
            raise Unsupported(f"context function {function}")
        need(bits >= 1 and shift + bits <= node.width, "context: field")
        need(all(1 <= stride <= 1 << 20 for stride in pairs[::2]), "context: stride")
        need(all(1 <= weight <= 4 for weight in pairs[1::2]), "context: weight")
        return [node.width] * 4

    @staticmethod
    def entries(node):
        return 5

    @staticmethod
    def run(node, frame, n, m, streams):
        function, shift, bits, *pairs = node.parameters
        pairs = list(zip(pairs[::2], pairs[1::2]))
        table = Bytes(frame.table[node.number])
        low, start, begins = table.varint(), table.varint(), []
        need(low < 1 << bits and start <= 63, "context: levels")
        for _ in range(3):
            begins.append(table.varint() + (begins[-1] + 1 if begins else 0))
        need(begins[-1] <= 63 * sum(weight for _, weight in pairs) and not table.rest(), "context: classes")

        def level(word):
            v = word >> shift & (1 << bits) - 1
            if function == 1:
                size = (1 << bits) - v if v >> (bits - 1) else v
                n = size.bit_length()
                v = 2 * n - 1 + (size >> (n - 2) & 1 if n > 1 else 0) if size else 0
            return min(63, max(0, v - low))

        left, out, levels = [list(reversed(stream)) for stream in streams], [], []
        for i in range(n):
            total = sum(weight * (levels[i - stride] if i >= stride else start) for stride, weight in pairs)
            words = left[sum(total >= begin for begin in begins)]
            need(words, "context: words of a class")
            out.append(words.pop())
            levels.append(level(out[-1]))
        return out


@operator(24, "levels")
class Levels(Operator):
    children, parameters, counts = 4, 4, 3

    @staticmethod
    def gate(node):
        kind, row, columns, rows = node.parameters
        if kind not in (0, 1):
            raise Unsupported(f"levels kind {kind}")
        need(1 <= columns <= row <= 1 << 20 and 1 <= rows <= 1 << 20, "levels: block")
        need(-(-row // columns) <= 65536, "levels: blocks of a row")
        return [16, node.width, 8, node.width]

    @staticmethod
    def lengths(node, n, m):
        blocks, words, others = m
        return [blocks, words, n - others, others]

    @staticmethod
    def run(node, frame, n, m, streams):
        kind, row, columns, rows = node.parameters
        top, mask = 1 << (node.width - 1), (1 << node.width) - 1
        sizes, steps, places, others = (list(reversed(stream)) for stream in streams)
        lists, out = {}, []
        for i in range(frame.first, frame.first + n):
            block = i // row // rows, i % row // columns
            if block not in lists:
                need(sizes, "levels: lists")
                size, key, words = sizes.pop(), 0, {}
                need(size <= 256 and size <= len(steps), "levels: size of a list")
                keys = []
                for _ in range(size):
                    key = (key + steps.pop()) & mask
                    keys.append(key)
                if kind == 1:
                    first = 128 - sum(key < top for key in keys)
                    need(0 <= first and first + size <= 256, "levels: sides of a list")
                    words = [key ^ top if key & top else ~key & mask for key in keys]
                else:
                    first, words = 0, keys
                lists[block] = {first + j: word for j, word in enumerate(words)} if size else None
            if lists[block] is None:
                need(others, "levels: words without a list")
                out.append(others.pop())
            else:
                need(places and places[-1] in lists[block], "levels: a place outside its list")
                out.append(lists[block][places.pop()])
        need(not (sizes or steps or places or others), "levels: more than the blocks need")
        return out


def small_float(code, fraction_bits, bias):
    """A float of eight bits that is a number."""
    exponent, fraction = (code & 0x7f) >> fraction_bits, code & (1 << fraction_bits) - 1
    size = float(fraction + (1 << fraction_bits) * (exponent > 0))
    return (-size if code & 0x80 else size) * 2.0 ** (max(exponent, 1) - bias - fraction_bits)


# What quantisers round to, by place; a place that is not there stands for +0.
LEVELS = [
    {1: -0.0} | {place: place - 256.0 for place in range(2, 512)},
    {code + 1: small_float(code, 3, 7) for code in range(256) if code & 0x7f != 0x7f},
    {code + 1: small_float(code, 2, 15) for code in range(256) if code & 0x7c != 0x7c},
    {place: value for place, value in enumerate((
        -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
        -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
        0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0), 1)},
]


def f32_word(value):
    return int.from_bytes(struct.pack("<f", value), "little")


def f32_value(word):
    return struct.unpack("<f", word.to_bytes(4, "little"))[0]


def bf16_word(value):
    word = f32_word(value)
    return (word + 0x7fff + (word >> 16 & 1)) >> 16


def f16_word(value):
    try:
        return int.from_bytes(struct.pack("<e", value), "little")
    except OverflowError:
        return 0xfc00 if value < 0 else 0x7c00


@operator(25, "dequantise")
class Dequantise(Operator):
    children, parameters, counts = 3, 5, 2

    @staticmethod
    def gate(node):
        kind, form, row, columns, rows = node.parameters
        if kind >= len(LEVELS) or form > 2:
            raise Unsupported(f"dequantise levels {kind}, type {form}")
        need(node.width == (16 if form else 32), "dequantise: words of another width")
        need(1 <= columns <= row <= 1 << 20 and 1 <= rows <= 1 << 20, "dequantise: block")
        need(-(-row // columns) <= 65536, "dequantise: blocks of a row")
        return [32, 9, node.width]

    @staticmethod
    def lengths(node, n, m):
        need(max(m) <= n, "dequantise: counts")
        return [m[0], n, m[1]]

    @staticmethod
    def run(node, frame, n, m, streams):
        kind, form, row, columns, rows = node.parameters
        to_word = (f32_word, bf16_word, f16_word)[form]
        places, scales, out = streams[1], {}, []
        need(all(word & 0x7fffffff == 0 or 64 <= word >> 23 & 0xff <= 190 for word in streams[0]), "dequantise: a scale")
        stored, others = list(reversed(streams[0])), list(reversed(streams[2]))
        for i, place in enumerate(places, frame.first):
            block = i // row // rows, i % row // columns
            if block not in scales:
                need(stored, "dequantise: fewer scales than blocks")
                scales[block] = f32_value(stored.pop())
            if place == 0:
                need(others, "dequantise: words without a level")
                out.append(others.pop())
            else:  # a double holds the product of two floats
                level = LEVELS[kind].get(place, 0.0)
                out.append(to_word(f32_value(f32_word(level * scales[block]))))
        need(not (stored or others), "dequantise: more than the blocks need")
        return out
