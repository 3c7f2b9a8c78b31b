# SPDX-License-Identifier: Apache-2.0
"""The operators of programs, written from docs/format-programs.md alone: one class each, registered under its id.

A class says, as far as the operator differs from the defaults in Operator:

    children, parameters    how many: a number, or None when gate() says
    gate(node)              refuses bad parameters; the widths of the children
    lengths(node, n, m)     the lengths of the children's streams, n being the node's, m its count, or a list of several
    run(node, frame, n, m, streams)         region operators: the node's n words of a frame, as a list
    read(node, reader, n, a, b)             skeleton operators: the words [a, b) of the node's stream of n words
"""
from brevis_codecs import Bytes, need

OPERATORS = {}
REGION, SKELETON, BOTH = "region", "skeleton", "both"


class Unsupported(Exception):
    pass


def operator(number, name):
    def register(cls):
        cls.name = name
        OPERATORS[number] = cls
        return cls
    return register


def bits_for(n):
    """The least b with n <= 2^b."""
    return (n - 1).bit_length()


class Operator:
    place, children, parameters, counts, has_list, has_codec = REGION, 1, 0, 0, False, False

    # How many of the first children have a word for each of the node's.
    in_step = 0

    @staticmethod
    def gate(node):
        return [node.width] * len(node.children)

    @staticmethod
    def lengths(node, n, m):
        return [n] * len(node.children)

    @staticmethod
    def entries(node):  # of a table, if it has one
        return node.parameters[0]


def fits(node, *values):
    need(all(v < 1 << node.width for v in values), f"{node.operator.name}: a parameter wider than the word")


def word_list(node, table):
    """The words of a stored list."""
    source, words, least = Bytes(table), [], 0
    for _ in range(node.parameters[0]):
        word = least + source.varint()
        need(word < 1 << node.width, "a list's word is too wide")
        words.append(word)
        least = word + 1
    need(not source.rest(), "bytes behind a list")
    return words


@operator(0, "literal")
class Literal(Operator):
    children, parameters, has_codec = 0, 1, True


@operator(1, "constant")
class Constant(Operator):
    place, children, parameters = BOTH, 0, 1

    @staticmethod
    def gate(node):
        fits(node, node.parameters[0])
        return []

    @staticmethod
    def run(node, frame, n, m, streams):
        return [node.parameters[0]] * n

    @staticmethod
    def read(node, reader, n, a, b):
        return [node.parameters[0]] * (b - a)


@operator(2, "ramp")
class Ramp(Operator):
    place, children, parameters = BOTH, 0, 2

    @staticmethod
    def gate(node):
        fits(node, *node.parameters)
        return []

    @staticmethod
    def run(node, frame, n, m, streams):
        return Ramp.read(node, None, None, frame.first, frame.first + n)

    @staticmethod
    def read(node, reader, n, a, b):
        v, step = node.parameters
        return [(v + i * step) % (1 << node.width) for i in range(a, b)]


@operator(3, "concat")
class Concat(Operator):
    place, children, parameters = SKELETON, None, None

    @staticmethod
    def gate(node):
        need(len(node.children) >= 2 and len(node.parameters) == len(node.children) - 1, "concat: lengths")
        need(min(node.parameters) >= 1 and sum(node.parameters) < 1 << 64, "concat: lengths")
        return [node.width] * len(node.children)

    @staticmethod
    def lengths(node, n, m):
        need(n >= sum(node.parameters), "concat longer than its stream")
        return [*node.parameters, n - sum(node.parameters)]

    @staticmethod
    def read(node, reader, n, a, b):
        out, start = [], 0
        for child, length in zip(node.children, Concat.lengths(node, n, None)):
            low, high = max(a, start), min(b, start + length)
            if low < high:
                out += reader.read(child, length, low - start, high - start)
            start += length
        return out


@operator(4, "repeat")
class Repeat(Operator):
    place, parameters = SKELETON, 1

    @staticmethod
    def gate(node):
        need(node.parameters[0] >= 2, "repeat: less than twice")
        return [node.width]

    @staticmethod
    def lengths(node, n, m):
        need(n % node.parameters[0] == 0, "repeat: no whole number of periods")
        return [n // node.parameters[0]]

    @staticmethod
    def read(node, reader, n, a, b):
        period, out = n // node.parameters[0], []
        while a < b:
            at = a % period
            take = min(b - a, period - at)
            if not at and a + take <= b - take and len(out) >= take:  # as often as whole periods are left
                out += out[-take:] * ((b - a) // take)
                a += (b - a) // take * take
                continue
            out += reader.read(node.children[0], period, at, at + take)
            a += take
        return out


@operator(5, "ref")
class Ref(Operator):
    place, children, parameters = SKELETON, 0, 1

    @staticmethod
    def gate(node):
        need(node.width % 8 == 0, "ref: no whole bytes")
        return []

    @staticmethod
    def lengths(node, n, m):
        need(node.parameters[0] + n * node.width // 8 < 1 << 64, "ref: offset too large")
        return []

    @staticmethod
    def read(node, reader, n, a, b):
        size = node.width // 8
        data = reader.original(node.parameters[0] + a * size, (b - a) * size)
        return [int.from_bytes(data[i:i + size], "little") for i in range(0, len(data), size)]


@operator(6, "merge")
class Merge(Operator):
    in_step = 64
    children, parameters = None, None

    @staticmethod
    def gate(node):
        need(len(node.children) >= 2 and len(node.parameters) == len(node.children), "merge: fields")
        need(min(node.parameters) >= 1 and sum(node.parameters) == node.width, "merge: widths")
        return node.parameters

    @staticmethod
    def run(node, frame, n, m, streams):
        out = streams[0]
        for width, words in zip(node.parameters[1:], streams[1:]):
            out = [high << width | low for high, low in zip(out, words)]
        return out


@operator(7, "rank")
class Rank(Operator):
    children, parameters, counts, has_list = 3, 1, 1, True

    @staticmethod
    def gate(node):
        size = node.parameters[0]
        need(1 <= size <= 65535 and size <= 1 << node.width, "rank: size")
        need(bits_for(size + 1) <= 64, "rank: size")
        return [bits_for(size + 1), 20, node.width]

    @staticmethod
    def lengths(node, n, m):
        return [n, m, m]

    @staticmethod
    def run(node, frame, n, m, streams):
        places, gaps, others = streams
        words, size = frame.word_list(node), node.parameters[0]
        need(all(p <= size for p in places), "rank: a place beyond the list")
        need(places.count(size) == m, "rank: number of exceptions")
        out, at = [words[p] if p < size else None for p in places], -1
        for gap, word in zip(gaps, others):
            at += 1 + gap
            need(at < n and places[at] == size, "rank: an exception in a wrong place")
            out[at] = word
        return out


@operator(8, "palette")
class Palette(Operator):
    parameters, has_list = 1, True

    @staticmethod
    def gate(node):
        size = node.parameters[0]
        need(2 <= size <= 65536 and size <= 1 << node.width, "palette: size")
        return [bits_for(size)]

    @staticmethod
    def run(node, frame, n, m, streams):
        words = frame.word_list(node)
        need(all(p < len(words) for p in streams[0]), "palette: a place beyond the list")
        return [words[p] for p in streams[0]]


def reverse(p, c, w):
    return int(format(p, f"0{w}b")[::-1], 2)


# function: (what it does with p, argument and width; the argument's limit)
MAPS = {
    0: (lambda p, c, w: p ^ c, lambda w: 1 << w),
    1: (lambda p, c, w: (p + c) % (1 << w), lambda w: 1 << w),
    2: (lambda p, r, w: (p << r | p >> (w - r)) % (1 << w), lambda w: w),
    3: (lambda p, c, w: p ^ p >> 1, lambda w: 1),
    4: (lambda p, c, w: (1 << w) - 1 - p // 2 if p % 2 else p // 2, lambda w: 1),
    5: (reverse, lambda w: 1),
    6: (lambda p, c, w: p - (1 << (w - 1)) if p >> (w - 1) else (1 << w) - 1 - p, lambda w: 1),
}


@operator(9, "map")
class Map(Operator):
    in_step = 64
    parameters = 2

    @staticmethod
    def gate(node):
        function, argument = node.parameters
        if function not in MAPS:
            raise Unsupported(f"map function {function}")
        need(argument < MAPS[function][1](node.width), "map: argument")
        return [node.width]

    @staticmethod
    def run(node, frame, n, m, streams):
        function, argument = node.parameters
        return [MAPS[function][0](p, argument, node.width) for p in streams[0]]


@operator(10, "scan")
class Scan(Operator):
    children, parameters = 2, 2

    @staticmethod
    def gate(node):
        function, stride = node.parameters
        if function not in (0, 1):
            raise Unsupported(f"scan function {function}")
        need(1 <= stride <= 1 << 20, "scan: stride")
        return [node.width] * 2

    @staticmethod
    def lengths(node, n, m):
        head = min(node.parameters[1], n)
        return [head, n - head]

    @staticmethod
    def run(node, frame, n, m, streams):
        function, stride = node.parameters
        out = list(streams[0])
        for i, p in enumerate(streams[1]):
            before = out[i + len(streams[0]) - stride]
            out.append(before ^ p if function == 0 else (before + p) % (1 << node.width))
        return out


# exponent and fraction bits
FLOATS = {"e4m3": (4, 3), "e5m2": (5, 2), "f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
CASTS = [("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("e4m3", "f16"), ("e5m2", "f16"), ("e4m3", "bf16"),
         ("e5m2", "bf16"), ("e4m3", "f32"), ("e5m2", "f32"), ("f16", "f64"), ("bf16", "f64")]


def widen(word, narrow, wide):
    (en, fn), (ew, fw) = FLOATS[narrow], FLOATS[wide]
    sign, e, f = word >> (en + fn), word >> fn & (1 << en) - 1, word & (1 << fn) - 1
    bias = (1 << (ew - 1)) - (1 << (en - 1))
    if e == (1 << en) - 1 and (narrow != "e4m3" or f == 7):
        exponent, fraction = (1 << ew) - 1, f << (fw - fn)
    elif e == 0 and (f == 0 or en == ew):
        exponent, fraction = 0, f << (fw - fn)
    elif e == 0:
        k = f.bit_length() - 1
        exponent, fraction = bias + 1 + k - fn, (f - (1 << k)) << (fw - k)
    else:
        exponent, fraction = e + bias, f << (fw - fn)
    return (sign << ew | exponent) << fw | fraction


@operator(11, "cast")
class Cast(Operator):
    in_step = 64
    parameters = 1

    @staticmethod
    def gate(node):
        kind = node.parameters[0]
        if kind >= len(CASTS):
            raise Unsupported(f"cast {kind}")
        narrow, wide = CASTS[kind]
        need(node.width == 1 + sum(FLOATS[wide]), "cast: width")
        return [1 + sum(FLOATS[narrow])]

    @staticmethod
    def run(node, frame, n, m, streams):
        narrow, wide = CASTS[node.parameters[0]]
        known = {p: widen(p, narrow, wide) for p in set(streams[0])}
        return [known[p] for p in streams[0]]


@operator(12, "interleave")
class Interleave(Operator):
    children = None

    @staticmethod
    def gate(node):
        need(len(node.children) >= 2, "interleave: children")
        return [node.width] * len(node.children)

    @staticmethod
    def lengths(node, n, m):
        k = len(node.children)
        return [-(-max(n - i, 0) // k) for i in range(k)]

    @staticmethod
    def run(node, frame, n, m, streams):
        out = [0] * n
        for i, words in enumerate(streams):
            out[i::len(streams)] = words
        return out


@operator(13, "runs")
class Runs(Operator):
    children, counts = 2, 1

    @staticmethod
    def gate(node):
        return [node.width, 20]

    @staticmethod
    def lengths(node, n, m):
        return [m, m]

    @staticmethod
    def run(node, frame, n, m, streams):
        need(sum(streams[1]) + m == n, "runs: sum")
        return [word for word, more in zip(*streams) for _ in range(more + 1)]


@operator(14, "zeros")
class Zeros(Operator):
    children, counts = 2, 1

    @staticmethod
    def gate(node):
        return [1, node.width]

    @staticmethod
    def lengths(node, n, m):
        return [n, m]

    @staticmethod
    def run(node, frame, n, m, streams):
        need(sum(streams[0]) == m, "zeros: number of ones")
        words = iter(streams[1])
        return [next(words) if one else 0 for one in streams[0]]


@operator(16, "transpose")
class Transpose(Operator):
    parameters = 2

    @staticmethod
    def gate(node):
        r, c = node.parameters
        need(r >= 2 and c >= 2 and r * c <= 1 << 20, "transpose: tile")
        return [node.width]

    @staticmethod
    def run(node, frame, n, m, streams):
        (r, c), out = node.parameters, list(streams[0])
        for start in range(0, n - r * c + 1, r * c):
            tile = streams[0][start:start + r * c]
            out[start:start + r * c] = [tile[j * r + i] for i in range(r) for j in range(c)]
        return out
