#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A reader of archives, written from docs/format.md and its two companions alone: slow, and no relative of src/.

usage: brevis_archive.py ARCHIVE [ORIGINAL]

Opens ARCHIVE, decodes and checks all of it (frames, digests, SHA-256, names of tensors) and, where ORIGINAL is given,
compares every byte. Bases are looked for beside ARCHIVE and where it says they were.
As a module: Archive(bytes, find).read(offset, length), Archive(bytes, find).check(), where find(id, hint) gives the bytes
of a base or None.
"""
import ctypes
import hashlib
import json
import pathlib
import sys

from brevis_codecs import Bytes, Corrupt, need
from brevis_operators import Unsupported
from brevis_programs import decode_frame, parse


class NotAnArchive(Exception):
    pass


class Truncated(Exception):
    pass


MAGIC, END_MAGIC = b"BREVIS\r\n", b"BREIVEND"
FEATURES = {"ref": 1, "offset": 2, "transpose": 4, "select": 8, "combine": 16, "patch": 16, "base": 16, "context": 64, "update": 128,
            "levels": 256, "dequantise": 512}
CODEC_FEATURES = {7: 32}
DTYPE_BITS = {
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "BOOL": 8, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8,
    "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16, "I32": 32, "U32": 32, "F32": 32,
    "C64": 64, "F64": 64, "I64": 64, "U64": 64}
PREFIX, TENSOR, OPAQUE = 0, 1, 2


class _Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


_xxhash = ctypes.CDLL("libxxhash.so.0")
_xxhash.XXH3_64bits.restype, _xxhash.XXH3_128bits.restype = ctypes.c_uint64, _Hash128
_zstd = ctypes.CDLL("libzstd.so.1")
_zstd.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
for _name in ("ZSTD_decompress", "ZSTD_findFrameCompressedSize"):
    getattr(_zstd, _name).restype = ctypes.c_size_t


def xxh64(data):
    return _xxhash.XXH3_64bits(bytes(data), ctypes.c_size_t(len(data)))


def xxh128(data):
    found = _xxhash.XXH3_128bits(bytes(data), ctypes.c_size_t(len(data)))
    return found.low, found.high


def u32(data, at):
    return int.from_bytes(data[at:at + 4], "little")


def u64(data, at):
    return int.from_bytes(data[at:at + 8], "little")


def unfold(folded):
    return -(folded // 2) - 1 if folded % 2 else folded // 2


def unzigzag(source, base):
    return (base + unfold(source.varint())) % (1 << 64)


def inflate_index(stored):
    n = ctypes.c_size_t(len(stored))
    need(stored[:4] == bytes.fromhex("28b52ffd"), "the index is no zstd frame")
    size = _zstd.ZSTD_getFrameContentSize(stored, n)
    need(size < 1 << 63, "the index declares no size")
    need(_zstd.ZSTD_getDictID_fromFrame(stored, n) == 0, "the index wants a dictionary")
    need(size <= min(1 << 30, (4 << 20) + 64 * len(stored)), "the index unfolds to too much")
    need(_zstd.ZSTD_findFrameCompressedSize(stored, n) == len(stored), "the index is not one frame")
    out = ctypes.create_string_buffer(max(size, 1))
    need(_zstd.ZSTD_decompress(out, ctypes.c_size_t(size), stored, n) == size, "the index does not unfold")
    return out.raw[:size]


class Record:
    """A stream: its program, its frames, the tables bound to its slots."""


class MissingBase(Exception):
    pass


class Segment:
    kind = start = length = record = offset = ordinal = None


class Archive:
    def __init__(self, data, find=None):
        self.data, self.bases = data, []
        self.read_ends()
        stored = data[self.index_at:self.index_at + self.index_length]
        need(xxh64(stored) == self.index_sum, "checksum of the index")
        content = inflate_index(stored)
        need(xxh128(content) == self.id, "the index is not the header's")
        self.read_index(content)
        self.check_features()
        self.check_references()
        self.open_bases(find)

    def read_ends(self):
        data = self.data
        if data[:8] != MAGIC:
            raise NotAnArchive
        if len(data) < 64:
            raise Truncated
        need(xxh64(data[:56]) == u64(data, 56), "checksum of the header")
        if u32(data, 8) != 1:
            raise Unsupported(f"version {u32(data, 8)}")
        self.features = u32(data, 12)
        if self.features & ~(sum(set(FEATURES.values())) | sum(CODEC_FEATURES.values())):
            raise Unsupported("required features")
        self.size, self.index_at, self.index_length = u64(data, 16), u64(data, 40), u64(data, 48)
        self.id = u64(data, 24), u64(data, 32)
        need(self.size <= 1 << 60 and 64 <= self.index_at <= 1 << 60 and self.index_length <= 1 << 31, "header")
        end = self.index_at + self.index_length + 32
        if len(data) < end:
            raise Truncated
        need(len(data) == end, "bytes behind the footer")
        footer = data[-32:]
        need(footer[24:] == END_MAGIC, "magic of the footer")
        need((u64(footer, 0), u64(footer, 8)) == (self.index_at, self.index_length), "the footer is not the header's")
        self.index_sum = u64(footer, 16)

    # The index.

    def read_index(self, content):
        source, sections = Bytes(content), []
        readers = (self.provenance, self.programs, self.tables, self.records, self.segments, self.frames, self.digest)
        for tag in range(1, 8):
            need(source.varint() == tag, "a section is missing")
            sections.append(Bytes(source.take(source.varint())))
        behind = Bytes(source.rest())
        for read, body in zip(readers, sections):
            read(body)
            need(not body.rest(), f"bytes behind the body of {read.__name__}")
        self.all_bases = []
        if any(program.bases for program in self.all_programs):
            need(behind.varint() == 8, "the bases are missing")
            body = Bytes(behind.take(behind.varint()))
            self.read_bases(body)
            need(not body.rest(), "bytes behind the bases")
        need(not behind.rest(), "bytes behind the sections")

    def count(self, source, least):
        """A count of entries that take at least so many bytes each."""
        count = source.varint()
        need(count * least <= len(source.data) - source.at, "a count that the section cannot hold")
        return count

    def provenance(self, source):
        count, self.made_by = self.count(source, 2), {}
        need(count <= 256, "provenance: too much")
        for _ in range(count):
            pair = []
            for limit in (64, 4096):
                n = source.varint()
                need(n <= limit, "provenance: too long")
                pair.append(source.take(n))
                try:
                    text = pair[-1].decode()
                except UnicodeDecodeError as e:
                    raise Corrupt("provenance: no UTF-8") from e
                need(not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text), "provenance: control characters")
            need(not self.made_by or max(self.made_by) < pair[0], "provenance: order")
            self.made_by[pair[0]] = pair[1]

    def programs(self, source):
        self.all_programs = []
        for _ in range(self.count(source, 4)):
            program = parse(source)
            need(program.width in (8, 16, 32, 64), "a program's width")
            self.all_programs.append(program)
            need(sum(len(p.nodes) for p in self.all_programs) <= 1 << 18, "too many nodes")

    def tables(self, source):
        lengths = [source.varint() for _ in range(self.count(source, 1))]
        self.all_tables = [source.take(n) for n in lengths]

    def records(self, source):
        count = self.count(source, 19)
        self.all_records = [Record() for _ in range(count)]
        nodes = 0
        for record in self.all_records:
            number = source.varint()
            record.bundle = number % 2 == 1
            need(number // 2 < len(self.all_programs), "a record's program")
            record.program = self.all_programs[number // 2]
            nodes += len(record.program.nodes)
            need(nodes <= 1 << 25, "too many nodes over all records")
        for record in self.all_records:
            record.words = source.varint()
            record.bytes = record.words * record.program.width // 8
            need(1 <= record.words and record.bytes <= 1 << 60, "a record's length")
            record.lengths = record.program.lengths(record.words)
        for record in self.all_records:
            record.frame_words = {}
            for region in record.program.regions:
                words = record.frame_words[region.number] = source.varint()
                need(words >= 1 and words * region.width <= 8 << 20, "a frame's length")
        before = 0
        for record in self.all_records:
            record.bound, entries = {}, 0
            for slot in record.program.slots:
                k = source.varint() + 1
                need(k <= 16, "more than 16 tables in a set")
                entries += k * slot.table_entries()
                need(entries <= 1 << 23, "tables with too many entries")
                record.bound[slot.number] = []
                for _ in range(k):
                    before = unzigzag(source, before)
                    need(before < len(self.all_tables), "a table that is not there")
                    record.bound[slot.number].append(self.all_tables[before])
        for record in self.all_records:
            record.digest = u64(source.take(8), 0), u64(source.take(8), 0)

    def segments(self, source):
        tags = source.take(self.count(source, 1))
        self.all_segments = [Segment() for _ in tags]
        places = []
        for tag in tags:
            need(tag < 16 and tag % 4 != 3, "a segment's tag")
            places.append((source.varint(), source.varint()) if tag >= 12 else None)
        last = None  # the last segment with bytes
        highest, at = -1, 0
        for segment, tag, place in zip(self.all_segments, tags, places):
            segment.kind, placement = tag % 4, tag // 4
            segment.start, segment.length = at, 0
            if placement == 0:
                need(segment.kind == TENSOR, "a segment without bytes that is no tensor")
                continue
            need(placement != 1 or last is not None, "nothing to stand behind")
            number = (last.record_number if placement == 1 else highest + 1 if placement == 2 else place[0])
            need(number < len(self.all_records), "a segment's record")
            segment.record_number, segment.record = number, self.all_records[number]
            segment.offset = last.offset + last.length if placement == 1 else 0 if placement == 2 else place[1]
            if placement == 3:
                behind = last and (last.record_number, last.offset + last.length)
                need(place != behind and place != (highest + 1, 0), "a place spelt out without need")
            if segment.record.bundle:
                segment.length = source.varint()
                need(segment.length >= 1, "a segment without bytes in a bundle")
            else:
                need(segment.offset == 0, "part of a record that is no bundle")
                segment.length = segment.record.bytes
            need(segment.offset + segment.length <= segment.record.bytes, "a segment beyond its record")
            at += segment.length
            need(at <= self.size, "segments beyond the file")
            last, highest = segment, max(highest, number)
        need(at == self.size, "the segments do not cover the file")
        expected = 0
        for i, segment in enumerate(self.all_segments):
            if segment.kind == PREFIX:
                need(i == 0 and 8 <= segment.length <= (256 << 20) + 8, "a prefix")
            if segment.kind == TENSOR:
                need(self.all_segments[0].kind == PREFIX, "a tensor without a prefix")
                segment.ordinal = unzigzag(source, expected)
                need(segment.ordinal < 1 << 32, "an ordinal")
                expected = segment.ordinal + 1

    def frames(self, source):
        count = self.count(source, 9)
        sizes = [source.varint() for _ in range(count)]
        sums = [u64(source.take(8), 0) for _ in range(count)]
        need(all(size <= 8 << 20 for size in sizes), "a frame's stored length")
        number, at = 0, 64
        for record in self.all_records:
            record.frames = {}
            for region in record.program.regions:
                frames = record.frames[region.number] = []
                needed = -(-record.lengths[region.number] // record.frame_words[region.number])
                need(number + needed <= count, "fewer frames than the records need")
                for _ in range(needed):
                    frames.append((at, sizes[number], sums[number]))
                    at += sizes[number]
                    number += 1
        need(number == count, "more frames than the records need")
        need(at == self.index_at, "the frames do not end at the index")

    def digest(self, source):
        self.sha256 = source.rest()
        need(len(self.sha256) in (0, 32), "the digest's length")

    def read_bases(self, source):
        count = self.count(source, 19)
        need(1 <= count <= 4096, "number of bases")
        for _ in range(count):
            number = u64(source.take(8), 0), u64(source.take(8), 0)
            size, depth = source.varint(), source.varint()
            need(size <= 1 << 60 and depth <= 3, "a base's size or depth")
            n = source.varint()
            need(n <= 1024, "a base's hint")
            try:
                hint = source.take(n).decode()
            except UnicodeDecodeError as e:
                raise Corrupt("a base's hint") from e
            need(not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in hint), "a base's hint")
            self.all_bases.append((number, size, depth, hint))
        used, before = set(), 0
        for record in self.all_records:
            record.base_spans = {}
            for node in record.program.bases:
                left = record.lengths[node.number] * node.width // 8
                spans = record.base_spans[node.number] = []
                many = self.count(source, 2)
                need((many == 0) == (left == 0), "spans without bytes, or bytes without spans")
                for i in range(many):
                    base = source.varint()
                    need(base < count, "a base that is not there")
                    offset = unzigzag(source, before)
                    n = source.varint() if i + 1 < many else left
                    need(1 <= n <= left and offset + n <= self.all_bases[base][1], "a span")
                    need(not spans or spans[-1][0] != base or sum(spans[-1][1:]) != offset, "two spans that are one")
                    spans.append((base, offset, n))
                    used.add(base)
                    left -= n
                    before = offset + n
        need(len(used) == count, "a base that is not used")
        need(all(not s.record.program.bases for s in self.all_segments if s.kind == PREFIX), "a prefix with a base")

    @property
    def depth(self):
        return max((depth + 1 for _, _, depth, _ in self.all_bases), default=0)

    def open_bases(self, find):
        for number, size, depth, hint in self.all_bases:
            data = find(number, hint) if find else None
            if data is None:
                raise MissingBase(f"base {hint!r}, archive id {number[1]:016x}{number[0]:016x}")
            base = Archive(data, find)
            need((base.id, base.size, base.depth) == (number, size, depth), "a base that is another archive")
            self.bases.append(base)

    # What spans several sections.

    def check_features(self):
        used = 0
        for program in self.all_programs:
            for node in program.nodes:
                used |= FEATURES.get(node.operator.name, 0)
                if node.operator.has_codec:
                    used |= CODEC_FEATURES.get(node.parameters[0], 0)
        need(self.features == used, "feature bits that are not the programs'")

    def check_references(self):
        for record in self.all_records:
            for node in record.program.refs:
                offset, n = node.parameters[0], record.lengths[node.number] * node.width // 8
                need(offset + n <= self.size, "a reference beyond the file")
                for segment in self.touched(offset, offset + n):
                    need(not segment.record.program.refs, "a reference to a reference")

    def touched(self, a, b):
        return [s for s in self.all_segments if s.length and s.start < b and a < s.start + s.length]

    # Reading.

    def original(self, offset, length):
        out = []
        for segment in self.touched(offset, offset + length):
            a, b = max(offset, segment.start), min(offset + length, segment.start + segment.length)
            into = segment.offset - segment.start
            out.append(self.stream(segment.record, a + into, b + into))
        return b"".join(out)

    read = original

    def stream(self, record, a, b):
        """Bytes [a, b) of a record's stream."""
        size = record.program.width // 8
        first, last = a // size, -(-b // size)
        words = RecordReader(self, record).read(record.program.root, record.words, first, last)
        return b"".join(word.to_bytes(size, "little") for word in words)[a - first * size:b - first * size]

    def frame(self, record, region, number):
        at, size, expected = record.frames[region.number][number]
        stored = self.data[at:at + size]
        need(xxh64(stored) == expected, f"checksum of the frame at {at}")
        first = number * record.frame_words[region.number]
        n = min(record.frame_words[region.number], record.lengths[region.number] - first)
        return decode_frame(region, n, first, stored, record.bound, RecordReader(self, record).base_words)

    # Checking all.

    def tensors(self):
        """(name, dtype, shape, segment) of every tensor, names from the stored prefix."""
        wanted = [s for s in self.all_segments if s.kind == TENSOR]
        if not wanted:
            return []
        prefix = self.all_segments[0]
        text = self.original(0, prefix.length)
        need(u64(text, 0) + 8 == len(text), "the prefix is not as long as it says")
        entries = [(name, entry) for name, entry in json.loads(text[8:], object_pairs_hook=list)
                   if name != "__metadata__"]
        out = []
        for segment in wanted:
            need(segment.ordinal < len(entries), "an ordinal beyond the header")
            name, entry = entries[segment.ordinal]
            entry = dict(entry)
            begin, end = entry["data_offsets"]
            need((begin + len(text), end - begin) == (segment.start, segment.length), f"{name}: not its span")
            width = DTYPE_BITS.get(entry["dtype"], 8)
            if segment.record:
                need(segment.record.program.width == (8 if width < 8 else width), f"{name}: words of another width")
            out.append((name, entry["dtype"], entry["shape"], segment))
        return out

    def check(self):
        """All bytes of the original, every checksum and digest compared."""
        for record in self.all_records:
            need(xxh128(self.stream(record, 0, record.bytes)) == record.digest, "a record's digest")
        data = self.original(0, self.size)
        need(not self.sha256 or hashlib.sha256(data).digest() == self.sha256, "the SHA-256 of the file")
        return data


class RecordReader:
    """What skeleton operators read through."""

    def __init__(self, archive, record):
        self.archive, self.record, self.original = archive, record, archive.original

    def base_words(self, node, a, b):
        """Words [a, b) of a base node's stream."""
        size, at, data = node.width // 8, 0, b""
        for base, offset, n in self.record.base_spans[node.number]:
            low, high = max(a * size, at), min(b * size, at + n)
            if low < high:
                data += self.archive.bases[base].read(offset + low - at, high - low)
            at += n
        return [int.from_bytes(data[i:i + size], "little") for i in range(0, len(data), size)]

    def read(self, node, n, a, b):
        if not node.is_region():
            return node.operator.read(node, self, n, a, b)
        out, each = [], self.record.frame_words[node.number]
        for number in range(a // each, -(-b // each)):
            words = self.archive.frame(self.record, node, number)
            out += words[max(a - number * each, 0):b - number * each]
        return out


def finder(path):
    """Finds bases of the archive at `path` by their hints."""
    def find(number, hint):
        for at in (pathlib.Path(path).parent / hint, pathlib.Path(path).parent / pathlib.Path(hint).name):
            if at.is_file():
                data = at.read_bytes()
                if (u64(data, 24), u64(data, 32)) == number:
                    return data
        return None
    return find


def main(path, original=None):
    with open(path, "rb") as file:
        archive = Archive(file.read(), finder(path))
    data = archive.check()
    tensors = archive.tensors()
    if original is not None:
        with open(original, "rb") as file:
            need(file.read() == data, f"{path} is not {original}")
    print(f"{path}: {len(data)} bytes, {len(tensors)} tensors, {len(archive.all_records)} streams: all sound")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
