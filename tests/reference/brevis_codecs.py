# SPDX-License-Identifier: Apache-2.0
"""Decoders of all literal codecs, written from docs/format-codecs.md alone: slow, short, and no relative of src/codec.

    words = decode(codec, width, count, payload, table)     # bytes in, list of integers out; raises Corrupt
"""
import ctypes
import re


class Corrupt(Exception):
    pass


def need(condition, what):
    if not condition:
        raise Corrupt(what)


class Bytes:
    """Bytes from the front; varints."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        need(self.at + n <= len(self.data), "bytes run out")
        self.at += n
        return self.data[self.at - n:self.at]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            need(value < 1 << 64 and shift < 70, "varint too large")
            if byte < 0x80:
                need(byte or not shift, "varint with superfluous groups")
                return value
            shift += 7

    def rest(self):
        return self.take(len(self.data) - self.at)


def binary(data):
    """The bits of a bit stream as a string, first bit first."""
    return bin(1 << 8 * len(data) | int.from_bytes(data, "little"))[:2:-1]


class Bits:
    """A bit stream; `last` is the step code's memory, by name."""

    def __init__(self, data):
        self.digits, self.at, self.last = binary(data), 0, {}

    def get(self, n):
        self.at += n
        need(self.at <= len(self.digits), "bits run out")
        return int(self.digits[self.at - n:self.at][::-1] or "0", 2)

    def unary(self):
        zero = self.digits.find("0", self.at)
        need(zero >= 0, "bits run out")
        n, self.at = zero - self.at, zero + 1
        return n

    def step_size(self, memory):
        z = self.unary()
        n = self.last.get(memory, 0) + ((z + 1) // 2 if z % 2 else -(z // 2))
        need(0 <= n <= 64, "size out of range")
        self.last[memory] = n
        return n

    def step(self, memory):
        n = self.step_size(memory)
        return 0 if n == 0 else 1 << (n - 1) | self.get(n - 1)

    def end(self):
        need(len(self.digits) - self.at < 8 and "1" not in self.digits[self.at:], "bits left over")


def lane_bytes(width):
    return next(n for n in (1, 2, 4, 8) if width <= 8 * n)


def from_lanes(data, width, count):
    lane = lane_bytes(width)
    need(len(data) == count * lane, "wrong number of bytes")
    return [int.from_bytes(data[i:i + lane], "little") for i in range(0, len(data), lane)]


def raw(width, count, payload, table):
    return from_lanes(payload, width, count)


def packed(width, count, payload, table):
    source = Bytes(payload)
    b = source.take(1)[0]
    need(b <= width, "fields wider than words")
    data = source.rest()
    need(len(data) == (count * b + 7) // 8, "wrong number of bytes")
    bits = Bits(data)
    words = [bits.get(b) for _ in range(count)]
    bits.end()
    return words


def zstd(width, count, payload, table):
    return from_lanes(zstd_content(payload, count * lane_bytes(width)), width, count)


def zstd_content(payload, size=None):
    """The content of exactly one frame; `size`: what it must have, at least one byte else."""
    library = ctypes.CDLL("libzstd.so.1")
    for name in ("ZSTD_decompress", "ZSTD_findFrameCompressedSize"):
        getattr(library, name).restype = ctypes.c_size_t
    library.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
    n = ctypes.c_size_t(len(payload))
    need(payload[:4] == bytes.fromhex("28b52ffd"), "no zstd frame")
    stated = library.ZSTD_getFrameContentSize(payload, n)
    need(stated <= 1 << 23 if size is None else stated == size, "wrong content size")
    size = stated
    need(library.ZSTD_findFrameCompressedSize(payload, n) == len(payload), "not one frame")
    out = ctypes.create_string_buffer(size)
    need(library.ZSTD_decompress(out, ctypes.c_size_t(size), payload, n) == size, "zstd fails")
    return out.raw


def text(width, count, payload, table):
    form = payload[:1]
    need(form in (b"\0", b"\1"), "a form that is not known")
    if form == b"\0":
        return list(zstd_content(payload[1:], count))
    need(len(payload) >= 2 and not payload[1:2].isdigit(), "no marker")
    body = zstd_content(payload[2:])
    need(len(body) <= count, "body too long")
    out, last, marker, after = bytearray(), {}, payload[1], False

    def note(run):
        if len(run) <= 9 and str(int(run)).encode() == run:
            last[(b"\0\0" + out)[-2:]] = int(run)
        out.extend(run)

    for piece in re.findall(rb"[0-9]+|[^0-9]", body):  # numbers, markers and other bytes
        if piece[0] == marker:
            place = (b"\0\0" + out)[-2:]
            need(not after and place in last and last[place] < 10**9 - 1, "a number that cannot stand here")
            note(str(last[place] + 1).encode())
        elif piece.isdigit():
            need(not after, "a number within a number")
            note(piece)
        else:
            out += piece
        after = piece[0] == marker or piece.isdigit()
        need(len(out) <= count, "too many bytes")
    need(len(out) == count, "too few bytes")
    return list(out)


def lanes(count, payload, scale_bits, slots):
    """slots: by slot (symbol, frequency, rank)."""
    n = 64 if count >= 65536 else 16 if count >= 16384 else 4 if count >= 4096 else 1
    need(len(payload) % 2 == 0 and len(payload) >= 4 * n, "wrong number of bytes")
    states = [int.from_bytes(payload[4 * i:4 * i + 4], "little") for i in range(n)]
    need(min(states) >= 1 << 16, "state too small")
    at, out, mask = 4 * n, [], (1 << scale_bits) - 1
    for i in range(count):
        x = states[i % n]
        symbol, frequency, rank = slots[x & mask]
        out.append(symbol)
        x = frequency * (x >> scale_bits) + rank
        if x < 1 << 16:
            need(at < len(payload), "words run out")
            x = x << 16 | int.from_bytes(payload[at:at + 2], "little")
            at += 2
        states[i % n] = x
    need(at == len(payload), "words left over")
    need(all(x == 1 << 16 for x in states), "a state does not end at 2^16")
    return out


def alias(width, count, payload, table):
    buckets = {5: 32, 6: 64}.get(width, 16)
    size = 4096 // buckets
    bits, frequency = Bits(table), []
    while sum(frequency) < 4096:
        need(len(frequency) < 1 << width, "sum too small")
        frequency.append(bits.step("frequency"))
    bits.end()
    need(sum(frequency) == 4096 and max(frequency) < 4096, "sum too large")
    frequency += [0] * (buckets - len(frequency))

    left, threshold = list(frequency), [(s + 1) * size for s in range(buckets)]
    second = list(range(buckets))
    small = [s for s in range(buckets) if left[s] < size]
    large = [s for s in range(buckets) if left[s] >= size]
    while small:
        s, other = small.pop(), large[-1]
        threshold[s], second[s] = s * size + left[s], other
        left[other] -= size - left[s]
        if left[other] < size:
            small.append(large.pop())
    used, slots = [0] * buckets, []
    for slot in range(4096):
        b = slot // size
        s = b if slot < threshold[b] else second[b]
        slots.append((s, frequency[s], used[s]))
        used[s] += 1
    return lanes(count, payload, 12, slots)


def rans(width, count, payload, table):
    source = Bytes(table)
    scale_bits = source.take(1)[0]
    need(12 <= scale_bits <= 16, "scale bits")
    bits, slots, next_word = Bits(source.rest()), [], 0
    while len(slots) < 1 << scale_bits:
        word = next_word + bits.step("gap")
        frequency = bits.step("frequency")
        need(word < 1 << width and 0 < frequency < 1 << scale_bits, "impossible word or frequency")
        slots += [(word, frequency, rank) for rank in range(frequency)]
        next_word = word + 1
    bits.end()
    need(len(slots) == 1 << scale_bits, "sum too large")
    return lanes(count, payload, scale_bits, slots)


def huffman(width, count, payload, table):
    bits, lengths, total, next_word = Bits(table), {}, 0, 0
    while total < 1 << 12:
        word = next_word + bits.step("gap")
        length = bits.step_size("length")
        need(word < 1 << width and 1 <= length <= 12, "impossible word or length")
        lengths[word] = length
        total += 1 << (12 - length)
        next_word = word + 1
    bits.end()
    need(total == 1 << 12, "too many codes")
    codes, code, before = {}, 0, 0
    for length, word in sorted((length, word) for word, length in lengths.items()):
        code <<= length - before
        codes[format(code, f"0{length}b")] = word
        code, before = code + 1, length

    source, parts = Bytes(payload), 8 if count >= 16384 else 1
    sizes = [source.varint() for _ in range(parts - 1)]
    streams = [source.take(n) for n in sizes]
    streams.append(source.rest())
    each, out = -(-count // parts), []
    for number, stream in enumerate(streams):
        digits = binary(stream)
        at = 0
        for _ in range(min(each, count - number * each)):
            end = at + 1
            while digits[at:end] not in codes:
                need(end < len(digits), "codes run out")
                end += 1
            out.append(codes[digits[at:end]])
            at = end
        need(len(digits) - at < 8 and "1" not in digits[at:], "bits left over")
    return out


def sparse(width, count, payload, table):
    source = Bytes(payload)
    usual, others = source.varint(), source.varint()
    need(usual < 1 << width and others <= count, "head")
    out = [usual] * count
    if others == 0:
        need(not source.rest(), "bytes left over")
        return out
    k, b = source.varint(), source.varint()
    need(k <= 40 and b <= width, "head")
    bits, at = Bits(source.rest()), 0
    for _ in range(others):
        at += bits.unary() << k
        at += bits.get(k)
        word = bits.get(b)
        need(at < count and word != usual, "impossible word or place")
        out[at] = word
        at += 1
    bits.end()
    return out


CODECS = {0: raw, 1: packed, 2: alias, 3: rans, 4: huffman, 5: sparse, 6: zstd, 7: text}


def decode(codec, width, count, payload, table=b""):
    if count == 0:
        need(not payload, "bytes but no words")
        return []
    words = CODECS[codec](width, count, payload, table)
    need(all(word < 1 << width for word in words), "a word too wide")
    return words
