# SPDX-License-Identifier: Apache-2.0
"""What must not change the bytes of an archive. test_same_archive.py"""
from cli_case import CliCase, main, model, safetensors, weights


class SameArchive(CliCase):
    def test_jobs(self):
        self.write("m.safetensors", model())
        for jobs in (1, 3):
            self.good(self.pack("m.safetensors", "-o", f"{jobs}.brv", "-j", jobs, "--memory", "64MiB"))
        self.assertEqual((self.dir / "1.brv").read_bytes(), (self.dir / "3.brv").read_bytes())

    # Choices, too, weigh figures that come out of vectors of different widths.
    def test_instructions(self):
        tensors = [(f"{dtype}.{i}", dtype, [rows, 300], weights(dtype, rows * 300, i))
                   for i, (dtype, rows) in enumerate((("BF16", 300), ("F16", 200), ("F32", 200), ("F8_E4M3", 100), ("BF16", 7)))]
        widened = b"".join(b"\0\0" + tensors[0][3][i:i + 2] for i in range(0, 60000, 2))
        self.write("m.safetensors", safetensors([*tensors, ("widened", "F32", [30000], widened)]))
        archives = {}
        for level in ("scalar", "avx2", "avx512", "neon"):  # those that this processor lacks fall back
            self.good(self.pack("m.safetensors", "-o", f"{level}.brv", env={"BREVIS_CPU": level}))
            archives[level] = (self.dir / f"{level}.brv").read_bytes()
        self.assertEqual([level for level in archives if archives[level] != archives["scalar"]], [])


if __name__ == "__main__":
    main()
