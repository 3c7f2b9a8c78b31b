# SPDX-License-Identifier: Apache-2.0
"""brevis bench: the shape of what it says and the sizes in it. Never times."""
import re

from cli_case import LFS_POINTER, CliCase, main, model, raw, safetensors, weights

SPEED = {"gb_per_s", "of_memcpy", "of_zstd3"}


class Bench(CliCase):
    def check_rate(self, rate):
        self.assertEqual(list(rate), ["one_core", "all_cores"])
        for speed in rate.values():
            self.assertEqual(set(speed), SPEED)
            for value in speed.values():
                self.assertGreaterEqual(value, 0)

    def check_ways(self, ways, names):
        self.assertEqual([w["name"] for w in ways], names)
        for way in ways:
            self.check_rate(way["decode"])
            self.check_rate(way["encode"])

    def bench(self, *args, **more):
        document = self.good(self.brevis("bench", "--rounds", 1, "--json", *args, **more)).json
        self.assertEqual(document["schema"], 1)
        self.assertEqual(document["levels"][0], "scalar")
        for file in document["files"]:
            self.check_rate(file["memcpy"])
            self.check_ways(file["ways"], ["zstd -3", "zstd -9", *document["levels"]])
            for group in file["dtypes"] + file["groups"]:
                self.check_ways(group["ways"], document["levels"])
            for key in ("bytes", "packed_bytes", "frames", "streams"):
                self.assertEqual(sum(g[key] for g in file["dtypes"]), sum(g[key] for g in file["groups"]))
            self.assertEqual(sum(g["bytes"] for g in file["groups"]), file["coded_bytes"])
        return document

    def test_sizes_are_the_packers(self):
        data, archive = self.packed()
        document = self.bench(self.dir / "model.safetensors", archive)
        plain, stored = document["files"]
        self.assertEqual((plain["kind"], stored["kind"]), ("safetensors", "archive"))
        for file in (plain, stored):
            self.assertEqual(file["bytes"], len(data))
            self.assertEqual(file["packed_bytes"], archive.stat().st_size)
            self.assertEqual({w["packed_bytes"] for w in file["ways"][2:]}, {archive.stat().st_size})
            self.assertEqual(file["rounds"], 1)
        self.assertEqual([(g["dtype"], g["program"], g["bytes"], g["packed_bytes"]) for g in plain["groups"]],
                         [(g["dtype"], g["program"], g["bytes"], g["packed_bytes"]) for g in stored["groups"]])
        # The tied tensor is no work of its own; the header is text of the file's first bytes.
        by_dtype = {g["dtype"]: g for g in plain["dtypes"]}
        self.assertEqual(by_dtype["BF16"]["bytes"], 2 * (96 * 64 + 64 * 64))
        self.assertEqual(by_dtype["header"]["bytes"], 8 + int.from_bytes(data[:8], "little"))

    def test_leaves_no_file_behind(self):
        source = self.write("m.safetensors", model())
        (self.dir / "tmp").mkdir()
        self.bench(source, env={"TMPDIR": str(self.dir / "tmp")})
        self.assertEqual(list((self.dir / "tmp").iterdir()), [])
        self.assertEqual(sorted(p.name for p in self.dir.iterdir()), ["m.safetensors", "tmp"])

    def test_cpu_is_obeyed(self):
        _, archive = self.packed()
        self.assertEqual(self.bench(archive, env={"BREVIS_CPU": "scalar"})["levels"], ["scalar"])

    def test_files_without_work(self):
        for name, data in (("none", raw("{}")), ("zeros", safetensors([("z", "F32", [4096], bytes(16384))]))):
            document = self.bench(self.write(name + ".safetensors", data))
            self.assertEqual(document["files"][0]["bytes"], len(data))

    def test_table_and_page(self):
        name = "a<b>&.safetensors"
        self.write(name, safetensors([("w", "BF16", [128, 128], weights("BF16", 16384, 3))]))
        run = self.good(self.brevis("bench", "--rounds", 2, "--report", "out.html", name))
        for words in ("memcpy", "zstd -3", "zstd -9", "brevis scalar", "by program", "BF16", "literal", "2 rounds"):
            self.assertIn(words, run.text)
        page = (self.dir / "out.html").read_text()
        self.assertTrue(page.startswith("<!DOCTYPE html>"))
        self.assertIn("a&lt;b&gt;&amp;.safetensors", page)
        self.assertIn("<svg", page)
        self.assertEqual(page.count("<svg"), page.count("</svg>"))
        # It needs nothing but itself.
        self.assertIsNone(re.search(r"<script|https?:|src=|href=|@import|url\(", page))
        self.assertNotRegex(page, r">-?(nan|inf)<")

    def test_bad_requests(self):
        self.fails(self.brevis("bench"), 2)
        self.fails(self.brevis("bench", "none"), 66, "none")
        self.fails(self.brevis("bench", self.write("x.safetensors", LFS_POINTER)), 65, "Git LFS pointer")
        source = self.write("m.safetensors", model())
        self.fails(self.brevis("bench", "--rounds", 0, source), 2, "--rounds")
        self.fails(self.brevis("bench", "--rounds", 1, "--report", "no/dir.html", source), 73, "no/dir.html")

    def test_damage(self):
        _, archive = self.packed()
        data = bytearray(archive.read_bytes())
        data[len(data) // 2] ^= 4
        archive.write_bytes(data)
        self.fails(self.brevis("bench", archive), 65, archive.name)


if __name__ == "__main__":
    main()
