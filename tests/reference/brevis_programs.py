# SPDX-License-Identifier: Apache-2.0
"""Programs: binary form, gate, slots, frames. Written from docs/format-programs.md alone.

    program = parse(bytes_from_the_front)              # raises Corrupt or Unsupported
    words = decode_frame(region, n, first, stored, bound)
"""
import brevis_codecs
from brevis_codecs import Bytes, lane_bytes, need
from brevis_operators import BOTH, OPERATORS, REGION, SKELETON, Unsupported, word_list
import brevis_dealing  # noqa: F401 - registers its operators
import brevis_relations  # noqa: F401 - registers its operators

TABLE_CODECS = {2, 3, 4}
# codec: the widths it accepts
CODEC_WIDTHS = {0: {8, 16, 32, 64}, 1: range(1, 65), 2: range(1, 7), 3: range(1, 65), 4: range(1, 13), 5: range(1, 65),
                6: range(1, 65), 7: {8}}


class Node:
    def __init__(self, source, budget, depth):
        need(depth <= 32, "a program deeper than 32")
        need(len(budget) < 4096, "a program of more than 4,096 nodes")
        self.number = len(budget)
        budget.append(self)
        number = source.varint()
        if number not in OPERATORS:
            raise Unsupported(f"operator {number}")
        self.operator = OPERATORS[number]
        count = source.varint()
        need(count <= 256, "more than 256 parameters")
        self.parameters = [source.varint() for _ in range(count)]
        need(self.operator.parameters in (None, count), f"{self.operator.name}: number of parameters")
        count = source.varint()
        need(count <= 4096, "more children than nodes")
        need(self.operator.children in (None, count), f"{self.operator.name}: number of children")
        self.children = [Node(source, budget, depth + 1) for _ in range(count)]

    def settle(self, width, inside, in_step=True):
        """Widths, places and parameters, from the root down. in_step: word i stands for word i of the region's stream."""
        need(1 <= width <= 64, "a width out of range")
        self.width, self.inside = width, inside
        place = self.operator.place
        need(not (inside and place == SKELETON), f"{self.operator.name} inside a region")
        if self.operator.has_codec:
            codec = self.parameters[0]
            if codec not in CODEC_WIDTHS:
                raise Unsupported(f"codec {codec}")
            need(width in CODEC_WIDTHS[codec], "a codec that does not take the width")
        need(self.operator.name != "base" or not inside or in_step, "a base out of step with its region")
        within = inside or place == REGION
        for i, (child, narrower) in enumerate(zip(self.children, self.operator.gate(self))):
            child.settle(narrower, within, not within or in_step and i < self.operator.in_step)

    def has_slot(self):
        return self.operator.has_list or self.operator.has_codec and self.parameters[0] in TABLE_CODECS

    def table_entries(self):
        return 1 << min(self.width, 16) if self.operator.has_codec else self.operator.entries(self)

    def below(self):
        yield self
        for child in self.children:
            yield from child.below()

    def is_region(self):
        return not self.inside and self.operator.place == REGION


class Program:
    def __init__(self, source):
        self.width, self.nodes = source.take(1)[0], []
        self.root = Node(source, self.nodes, 1)
        self.root.settle(self.width, False)
        self.slots = [node for node in self.nodes if node.has_slot()]
        self.regions = [node for node in self.nodes if node.is_region()]
        self.bases = [node for node in self.nodes if node.operator.name == "base"]
        need(len(self.bases) <= 4, "more than four bases")
        self.refs = [node for node in self.nodes if node.operator.name == "ref"]
        for region in self.regions:
            n = (1 << 23) // region.width if region.width >= 8 else 1 << 20
            need(memory(region, n) <= 1 << 26, "a frame takes too much memory")

    def lengths(self, words):
        """Number of each region and each skeleton leaf: its stream's length."""
        found = {}

        def walk(node, n):
            found[node.number] = n
            if not node.is_region():
                for child, length in zip(node.children, node.operator.lengths(node, n, None)):
                    walk(child, length)

        walk(self.root, words)
        for region in self.regions:  # bases in a region are as long as its stream
            for node in region.below():
                if node.operator.name == "base":
                    found[node.number] = found[region.number]
        return found


def memory(node, n):
    most = [n] * len(node.children) if node.operator.counts > 1 else node.operator.lengths(node, n, n)
    below = zip(node.children, most)
    return n * lane_bytes(node.width) + sum(memory(child, length) for child, length in below)


def parse(data):
    return Program(data if isinstance(data, Bytes) else Bytes(data))


class Frame:
    """One frame of a region: n words from word `first` of the region's stream on. bound: node number -> its tables."""

    def __init__(self, region, n, first, stored, bound, base_words=None):
        self.base_words = base_words
        self.first, self.bound, self.table, self.count, self.payload = first, bound, {}, {}, {}
        source, self.length = Bytes(stored), {}
        self.head(region, n, source)
        for number in sorted(self.payload):
            self.payload[number] = source.take(self.payload[number])
        need(not source.rest(), "bytes behind the payloads")
        self.words = self.run(region)

    def head(self, node, n, source):
        self.length[node.number] = n
        tables = self.bound.get(node.number)
        if tables is not None:
            choice = source.take(1)[0] if len(tables) > 1 else 0
            need(choice < len(tables), "a table that the set does not have")
            self.table[node.number] = tables[choice]
        m = None
        if node.operator.counts:
            several = [source.varint() for _ in range(node.operator.counts)]
            need(max(several) <= n, "a count above the stream's length")
            m = self.count[node.number] = several if len(several) > 1 else several[0]
        if node.operator.has_codec:
            self.payload[node.number] = source.varint()
        for child, length in zip(node.children, node.operator.lengths(node, n, m)):
            self.head(child, length, source)

    def word_list(self, node):
        return word_list(node, self.table[node.number])

    def run(self, node):
        n = self.length[node.number]
        if node.operator.has_codec:
            return brevis_codecs.decode(node.parameters[0], node.width, n, self.payload[node.number],
                                        self.table.get(node.number, b""))
        streams = [self.run(child) for child in node.children]
        return node.operator.run(node, self, n, self.count.get(node.number), streams)


def decode_frame(region, n, first, stored, bound, base_words=None):
    """base_words(node, a, b): the words [a, b) of a base node's stream."""
    return Frame(region, n, first, stored, bound, base_words).words
