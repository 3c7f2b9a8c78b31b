# SPDX-License-Identifier: Apache-2.0
"""brevis ls, inspect, cat and diff."""
import os
import pty
import subprocess

from cli_case import BIN, LFS_POINTER, CliCase, main, model, raw, safetensors, scan, weights


class Ls(CliCase):
    def test_table_of_an_archive(self):
        _, archive = self.packed()
        self.expect("ls_archive", self.good(self.brevis("ls", archive)).text)

    def test_table_of_a_plain_file(self):
        source = self.write("m.safetensors", model())
        self.expect("ls_plain", self.good(self.brevis("ls", source)).text)

    def same_as_scan(self, listed, data):
        header = scan(data)
        metadata = header.pop("__metadata__", None)
        self.assertEqual(listed["schema"], 1)
        self.assertEqual(listed.get("metadata"), metadata)
        self.assertEqual([t["name"] for t in listed["tensors"]], list(header))
        for tensor in listed["tensors"]:
            entry = header[tensor["name"]]
            self.assertEqual({k: tensor[k] for k in entry}, entry)

    # I08: a listing of an archive equals a scan of the original header
    def test_json_equals_a_scan_of_the_header(self):
        data, archive = self.packed()
        self.same_as_scan(self.good(self.brevis("ls", "--json", archive)).json, data)
        self.same_as_scan(self.good(self.brevis("ls", "--json", self.dir / "model.safetensors")).json, data)

    # F10: names and offsets of a header in another order than the data
    def test_header_order_is_kept(self):
        header = ('{"z":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]},'
                  '"a\\u00e9":{"dtype":"U8","shape":[1],"data_offsets":[2,3]}}')
        data, archive = self.packed("o.safetensors", raw(header, b"abcd"))
        self.same_as_scan(self.brevis("ls", "--json", archive).json, data)

    # I02: hashes of tensors are listed; members of one bundle share theirs
    def test_json_lists_hashes(self):
        _, archive = self.packed()
        listed = self.brevis("ls", "--json", archive).json
        self.assertRegex(listed["sha256"], "^[0-9a-f]{64}$")
        for tensor in listed["tensors"]:
            self.assertRegex(tensor["xxh3_128"], "^[0-9a-f]{32}$")
            self.assertIn(tensor["digest_of"], ("tensor", "bundle"))

    # Z04: tied tensors are marked
    def test_tied_tensors(self):
        data = weights("BF16", 256 * 256, 4)
        _, archive = self.packed("t.safetensors", safetensors([(n, "BF16", [256, 256], data) for n in ("a", "b")]))
        a, b = self.brevis("ls", "--json", archive).json["tensors"]
        self.assertEqual(a["xxh3_128"], b["xxh3_128"])
        self.assertEqual([t.get("duplicate", False) for t in (a, b)], [False, True])
        self.assertEqual(b["packed_bytes"], 0)
        self.assertIn("duplicate", self.brevis("ls", archive).text)

    # F08: tensors without elements are listed with 0 bytes
    def test_empty_tensors(self):
        _, archive = self.packed()
        empty = [t for t in self.brevis("ls", "--json", archive).json["tensors"] if t["name"] == "empty"]
        self.assertEqual((empty[0]["bytes"], empty[0]["packed_bytes"], empty[0]["ratio"]), (0, 0, None))

    def test_directory(self):
        self.write("tree/sub/a.safetensors", model(1))
        self.write("tree/config.json", "{}")
        os.symlink("sub/a.safetensors", self.dir / "tree/link")
        self.good(self.pack("tree", "-o", "out", "-q"))
        self.expect("ls_directory", self.good(self.brevis("ls", "out")).text)
        listed = self.good(self.brevis("ls", "out", "--json")).json
        kinds = {f["path"]: f["kind"] for f in listed["files"]}
        self.assertEqual(kinds, {"config.json": "file", "link": "link", "sub/a.safetensors.brv": "archive"}
                         if "link" in kinds else
                         {"config.json": "file", "link.brv": "link", "sub/a.safetensors.brv": "archive"})

    def test_damaged_archive_in_a_directory(self):
        _, archive = self.packed()
        data = bytearray(archive.read_bytes())
        data[20] ^= 1
        archive.write_bytes(data)
        self.write("b/x", "1")
        archive.rename(self.dir / "b/m.brv")
        run = self.fails(self.brevis("ls", "b"), 65, "m.brv")
        self.assertIn("damaged", run.text)

    def test_other_files(self):
        run = self.good(self.brevis("ls", self.write("x.safetensors", LFS_POINTER)))
        self.assertIn("Git LFS pointer", run.text)
        self.assertEqual(self.brevis("ls", "--json", "x.safetensors").json["kind"], "file")

    def test_names_cannot_steer_the_terminal(self):
        source = self.write("x.safetensors", safetensors([("\x1b[2J\u009b", "U8", [1], b"x")]))
        self.assertIn("\\x1b[2J\\x9b", self.good(self.brevis("ls", source)).text)

    def test_missing(self):
        self.fails(self.brevis("ls", "none"), 66, "none")
        run = self.fails(self.brevis("ls", "none", "--json"), 66)
        self.assertEqual(run.json["error"]["kind"], "not_found")
        self.assertEqual(run.json["exit_code"], 66)

    def test_titles_are_bold_on_a_terminal_only(self):
        _, archive = self.packed()

        def on_terminal(**env):
            leader, follower = pty.openpty()
            subprocess.run([str(BIN / "brevis"), "ls", str(archive)], stdout=follower, check=True,
                           env=self.environment({"TERM": "xterm", **env}))
            os.close(follower)
            shown = os.read(leader, 1 << 16)
            os.close(leader)
            return shown

        self.assertIn(b"\x1b[1m", on_terminal())
        self.assertNotIn(b"\x1b", on_terminal(NO_COLOR="1"))
        self.assertNotIn(b"\x1b", self.brevis("ls", archive).out)


class Inspect(CliCase):
    def test_archive(self):
        data, archive = self.packed()
        run = self.good(self.brevis("inspect", archive))
        for words in ("verdict    valid", "sha256", "provenance", "program  ", "leaf     ", "layers.1.weight  F16 [64,32]"):
            self.assertIn(words, run.text)
        document = self.brevis("inspect", "--json", archive).json
        spans = {s["name"]: s for s in document["spans"]}
        self.assertEqual(sum(s["bytes"] for s in document["spans"]), len(data))
        weight = spans["embed.weight"]
        self.assertIn("literal", weight["program"])
        self.assertGreater(sum(leaf["bytes"] for leaf in weight["leaves"]), 0)

    def test_one_tensor(self):
        _, archive = self.packed()
        run = self.good(self.brevis("inspect", archive, "layers.0.weight"))
        self.assertIn("layers.0.weight", run.text)
        self.assertNotIn("embed.weight", run.text)
        self.fails(self.brevis("inspect", archive, "nope"), 66, "'nope'")
        self.fails(self.brevis("inspect", self.dir / "model.safetensors", "nope"), 66, "'nope'")

    # F02: the message names the key and says duplicate
    def test_first_broken_rule(self):
        entry = '{"dtype":"U8","shape":[1],"data_offsets":[0,1]}'
        source = self.write("x.safetensors", raw(f'{{"a":{entry},"a":{entry}}}', b"x"))
        self.expect("inspect_duplicate", self.good(self.brevis("inspect", source.name)).text)
        document = self.brevis("inspect", "--json", source).json
        self.assertEqual(document["verdict"], "lenient")
        self.assertEqual(document["reason"]["offset"], 61)

    def test_verdict_is_the_same_from_the_archive(self):
        for name, data in {"trail": model() + b"\t\7/\0", "meta": raw('{"__metadata__":{"n":0}}'), "good": model()}.items():
            data, archive = self.packed(name + ".safetensors", data)
            plain = self.brevis("inspect", "--json", self.dir / (name + ".safetensors")).json
            stored = self.brevis("inspect", "--json", archive).json
            for key in ("verdict", "reason", "metadata", "trailing_bytes"):
                self.assertEqual(plain.get(key), stored.get(key))

    # F30: files of other kinds are called by their names
    def test_other_files(self):
        for data, name in ((LFS_POINTER, "Git LFS pointer"), (b"PK\3\4....", "zip archive"), (b"GGUF\3\0\0\0....", "GGUF"),
                           (b"<!DOCTYPE html><html>", "HTML page"), (b"\x80\2}q\0.", "pickle"), (b"", "empty file")):
            run = self.good(self.brevis("inspect", self.write("x.safetensors", data)))
            self.assertIn(name, run.text)
            self.assertIn("not safetensors", run.text)


class Cat(CliCase):
    def test_ranges(self):
        data, archive = self.packed()
        self.assertEqual(self.good(self.brevis("cat", archive)).out, data)
        for offset, length in ((0, 0), (0, 1), (7, 9), (len(data) - 3, 3), (len(data) - 3, 100), (len(data), 1), (1000, 20000)):
            run = self.good(self.brevis("cat", archive, "--offset", offset, "--length", length))
            self.assertEqual(run.out, data[offset:offset + length])
        self.assertEqual(self.good(self.brevis("cat", archive, "--offset", "1KiB")).out, data[1024:])

    def test_tensors(self):
        data, archive = self.packed()
        start = 8 + int.from_bytes(data[:8], "little")
        for name, entry in scan(data).items():
            if name == "__metadata__":
                continue
            begin, end = (start + at for at in entry["data_offsets"])
            self.assertEqual(self.good(self.brevis("cat", archive, "--tensor", name)).out, data[begin:end])
        part = self.good(self.brevis("cat", archive, "--tensor", "layers.1.weight", "--offset", 5, "--length", 6)).out
        begin = start + scan(data)["layers.1.weight"]["data_offsets"][0]
        self.assertEqual(part, data[begin + 5:begin + 11])

    def test_bad_requests(self):
        data, archive = self.packed()
        self.fails(self.brevis("cat", archive, "--offset", len(data) + 1), 2, "beyond the end")
        self.fails(self.brevis("cat", archive, "--tensor", "none"), 66, "'none'")
        self.fails(self.brevis("cat", self.dir / "model.safetensors"), 65, "no Brevis archive", "safetensors")
        self.fails(self.brevis("cat", "none"), 66, "none")

    def test_damage(self):
        _, archive = self.packed()
        data = bytearray(archive.read_bytes())
        data[len(data) // 2] ^= 4
        archive.write_bytes(data)
        self.fails(self.brevis("cat", archive), 65, "model.safetensors.brv")

    def test_full_output(self):
        _, archive = self.packed()
        with open("/dev/full", "wb") as full:
            self.fails(self.brevis("cat", archive, stdout=full), 74, "standard output")
            self.fails(self.brevis("ls", archive, stdout=full), 74, "standard output")


class Diff(CliCase):
    def test_same(self):
        _, archive = self.packed()
        self.expect("diff_same", self.good(self.brevis("diff", archive, self.dir / "model.safetensors")).text)
        self.good(self.brevis("diff", archive, archive, "-q"))

    def test_different(self):
        a = [("kept", "U8", [4], b"1234"), ("gone", "U8", [2], b"ab"), ("edited", "U8", [4], b"wxyz"), ("turned", "U8", [4], b"0000")]
        b = [("kept", "U8", [4], b"1234"), ("edited", "U8", [4], b"wXYz"), ("turned", "F32", [1], b"0000"),
             ("new", "BF16", [2, 2], weights("BF16", 4, 1))]
        _, archive = self.packed("a.safetensors", safetensors(a))
        other = self.write("b.safetensors", safetensors(b, {"format": "pt"}))
        run = self.brevis("diff", archive, other)
        self.assertEqual(run.code, 1)
        self.expect("diff_different", run.text)
        run = self.brevis("diff", "--json", archive, other)
        self.assertEqual(run.code, 1)
        self.assertEqual({(c["change"], c["name"]) for c in run.json["changes"]},
                         {("removed", "gone"), ("changed", "edited"), ("retyped", "turned"), ("added", "new")})
        self.assertEqual([c["differing_bytes"] for c in run.json["changes"] if c["name"] == "edited"], [2])

    def test_bad_sides(self):
        _, archive = self.packed()
        self.fails(self.brevis("diff", archive, "none"), 66, "none")
        self.fails(self.brevis("diff", archive, self.write("x.safetensors", LFS_POINTER)), 65, "Git LFS pointer")


if __name__ == "__main__":
    main()
