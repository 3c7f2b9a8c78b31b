# SPDX-License-Identifier: Apache-2.0
"""Archives that stand on others, as a user meets them."""
import random
import shutil
import unittest

from cli_case import CliCase, main, safetensors, weights


def snapshots(count):
    """A model and what becomes of it, step by step; one tensor stays as it is."""
    source, big = random.Random(3), bytearray(weights("BF16", 40000, 1))
    fixed, out = weights("BF16", 20000, 2), []
    for step in range(count):
        if step:
            for i in range(0, len(big), 2):
                big[i] ^= source.randrange(4)
        out.append(safetensors([("big", "BF16", [40000], bytes(big)), ("fixed", "BF16", [20000], fixed)],
                               {"step": str(step)}))
    return out


class Relations(CliCase):
    def series(self, count=3):
        originals = snapshots(count)
        for step, data in enumerate(originals):
            self.write(f"run/step-{step}/model.safetensors", data)
        self.good(self.pack(*[f"run/step-{step}" for step in range(count)], "--chain", "-o", "out"))
        return originals

    def archive(self, step):
        return self.dir / f"out/step-{step}/model.safetensors.brv"

    def test_chain(self):
        originals = self.series(6)
        sizes = [self.archive(step).stat().st_size for step in range(6)]
        for step, data in enumerate(originals):
            self.assertEqual(self.good(self.brevis("cat", self.archive(step))).out, data)
            if step % 5:
                self.assertLess(sizes[step] * 2, sizes[0])
        self.good(self.brevis("fsck", "out"))
        self.good(self.brevis("extract", "out", "-o", "back", "--verify"))
        for step, data in enumerate(originals):
            self.assertEqual((self.dir / f"back/step-{step}/model.safetensors").read_bytes(), data)

    def test_shown(self):
        self.series()
        relations = self.good(self.brevis("ls", "--needed-by", "--json", "out")).json["relations"]
        self.assertEqual([(r["base"], r["needed_by"]) for r in relations],
                         [(f"out/step-{s}/model.safetensors.brv", f"out/step-{s + 1}/model.safetensors.brv")
                          for s in range(2)])
        listed = self.good(self.brevis("ls", self.archive(1))).text
        self.assertIn("on a base", listed)
        self.assertIn("../step-0/model.safetensors.brv", listed)
        shown = self.good(self.brevis("inspect", "--json", self.archive(1))).json
        self.assertEqual(shown["archive"]["bases"][0]["hint"], "../step-0/model.safetensors.brv")
        different = self.brevis("diff", self.archive(0), self.archive(1))
        self.assertEqual(different.code, 1)
        self.assertIn("B stands on A", different.text)

    # Z09: a base that is missing, another one, or damaged
    def test_wrong_bases(self):
        originals = self.series()
        kept = self.dir / "kept"
        shutil.move(self.archive(0), kept)
        identity = self.good(self.brevis("inspect", "--json", kept)).json["archive"]["id"]
        for command in (("cat", self.archive(2)), ("extract", self.archive(2), "-o", "x"),
                        ("diff", self.archive(2), self.archive(2))):
            self.fails(self.brevis(*command), 66, "step-0/model.safetensors.brv", identity, "--base-path")
        self.assertFalse((self.dir / "x").exists())
        run = self.brevis("fsck", "out")
        self.assertEqual(run.code, 1)
        self.assertIn(identity, run.text)
        # What needs no base still works.
        self.good(self.brevis("ls", self.archive(2)))
        self.good(self.brevis("inspect", self.archive(2)))

        shutil.copy(self.archive(1), self.archive(0))
        self.fails(self.brevis("cat", self.archive(2)), 66, identity, "another archive")
        damaged = bytearray(kept.read_bytes())
        damaged[-50] ^= 4
        self.archive(0).write_bytes(damaged)
        self.fails(self.brevis("cat", self.archive(2)), 65, identity, "step-0")

        # Elsewhere, under another name.
        self.archive(0).unlink()
        (self.dir / "elsewhere/deep").mkdir(parents=True)
        shutil.move(kept, self.dir / "elsewhere/deep/renamed.brv")
        self.assertEqual(self.good(self.brevis("cat", self.archive(2), "--base-path", "elsewhere")).out, originals[2])
        self.good(self.brevis("fsck", "out", "--base-path", "elsewhere"))

    def test_flatten(self):
        originals = self.series()
        self.fails(self.pack("--flatten", self.archive(0).parent.parent / "step-1/model.safetensors.brv", "-o", "x.brv",
                             "--base", "nowhere.brv"), 66, "nowhere.brv")
        self.good(self.pack("--flatten", "out"))
        self.archive(0).unlink()
        for step in (1, 2):
            self.assertEqual(self.good(self.brevis("cat", self.archive(step))).out, originals[step])

    def holds(self, originals):
        for step, data in enumerate(originals):
            self.assertEqual(self.good(self.brevis("cat", self.archive(step))).out, data)

    # Z09: nothing takes the place of an archive that others stand on, those in the directories beside it included
    def test_bases_stay(self):
        originals = self.series()
        first, second, last = (self.archive(step) for step in range(3))
        for arguments in (("run/step-2/model.safetensors", "-o", first, "--force"),
                          ("run/step-2", "-o", "out/step-0", "--force"),
                          ("run/step-2/model.safetensors", "--base", first, "-o", first, "--force"),
                          ("--flatten", second), ("--flatten", last, "-o", first, "--force"),
                          ("--rebase", last, first), ("--rebase", last, second), ("--rebase", last, last)):
            self.fails(self.pack(*arguments), 73, "base of")
            self.holds(originals)
        # A directory that holds the base itself: all but that are packed anew.
        run = self.good(self.pack("--rebase", first, "out", "--json"))
        self.assertEqual([f["source"] for f in run.json["files"] if f["action"] == "skipped"],
                         ["out/step-0/model.safetensors.brv"])
        self.holds(originals)
        # The whole series may be written again, one with a copy of its own is no reason to refuse.
        shutil.copytree(self.dir / "out", self.dir / "copy")
        self.good(self.pack(*[f"run/step-{step}" for step in range(3)], "--chain", "-o", "out", "--force"))
        self.good(self.pack("--flatten", "copy"))
        self.holds(originals)

    # I04: a second run packs what the first did not
    def test_long_runs(self):
        originals = snapshots(4)
        for step, data in enumerate(originals):
            self.write(f"tree/{step}.safetensors", data)
        for shard in range(2):
            self.good(self.pack("tree", "-o", "packed", "--shard", f"{shard}/2"))
        self.assertEqual(len(list((self.dir / "packed").iterdir())), 4)
        (self.dir / "packed/2.safetensors.brv").unlink()
        run = self.good(self.pack("tree", "-o", "packed", "--resume", "--json"))
        self.assertEqual(sorted(f["action"] for f in run.json["files"]), ["packed"] + ["skipped"] * 3)
        # Another state of a source is told, and what was made of the first one stays.
        self.write("tree/1.safetensors", originals[3])
        self.fails(self.pack("tree", "-o", "packed", "--resume"), 73, "packed/1.safetensors.brv", "--force")
        self.assertEqual(self.good(self.brevis("cat", "packed/1.safetensors.brv")).out, originals[1])
        run = self.good(self.pack("tree", "-o", "packed", "--resume", "--force", "--json"))
        self.assertEqual([f["action"] for f in run.json["files"]].count("packed"), 1)
        self.assertEqual(self.good(self.brevis("cat", "packed/1.safetensors.brv")).out, originals[3])
        self.write("tree/1.safetensors", originals[1])
        self.fails(self.pack("tree", "-o", "again", "--shard", "2/2"), 2, "--shard")
        self.good(self.pack("--replace", "tree"))
        self.assertEqual(sorted(p.name for p in (self.dir / "tree").iterdir()),
                         [f"{step}.safetensors.brv" for step in range(4)])
        for step, data in enumerate(originals):
            self.assertEqual(self.good(self.brevis("cat", f"tree/{step}.safetensors.brv")).out, data)


if __name__ == "__main__":
    main()
