# SPDX-License-Identifier: Apache-2.0
"""check_layers.py finds each breach it promises to find.  test_check_layers.py CHECK_LAYERS"""
import pathlib
import subprocess
import sys
import tempfile

LAYERS = """face:
base: face
dsl:  face base
fs:   face
only zstd: dsl/zip
only fuse: fs/
"""
GOOD = {
    "include/brevis/a.h": '#include <vector>\n#include <tl/expected.hpp>\n#include "brevis/b.h"\n',
    "src/base/a.cc": '#include "base/a.h"\n#include "brevis/a.h"\n// never printf( here\nstd::snprintf(buffer);\n',
    "src/dsl/zip.cc": "#include <zstd.h>\n",
    "src/dsl/meson.build": "link_with: base_lib\n",
    "fs/main.cc": '#include "options.h"\n#include <fuse3/fuse_lowlevel.h>\n',
}
BAD = {
    "include/brevis/x.h": ("#include <boost/asio.hpp>\n", "x.h:1: include/brevis takes only"),
    "src/base/up.cc": ('#include "dsl/op.h"\n', "up.cc:1: base may not include dsl"),
    "fs/deep.cc": ('\n#include "base/io.h"\n', "deep.cc:2: fs may not include base"),
    "src/dsl/stray.cc": ('#include "tools/x.h"\n', "stray.cc:1: tools is no layer"),
    "src/dsl/other.cc": ("#include <zstd.h>\n", "other.cc:1: zstd may be named in"),
    "src/base/fuse.cc": ("#include <fuse3/fuse.h>\n", "fuse.cc:1: fuse may be named in"),
    "src/base/print.cc": ('std::cout << "x";\n', "print.cc:1: libraries neither print nor exit"),
    "src/base/long.cc": ("\n" * 501, "long.cc:501: 501 lines"),
    "src/base/meson.build": ("link_with: dsl_lib\n", "base may not link dsl"),
    "src/LAYERS": (LAYERS + "low: high\nhigh:\n", "src/LAYERS:7: high does not stand above low"),
}


def run(checker, files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = pathlib.Path(root, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        done = subprocess.run([sys.executable, checker, root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr


good = {"src/LAYERS": LAYERS, **GOOD}
code, output = run(sys.argv[1], good)
assert code == 0, output
for name, (text, expected) in BAD.items():
    code, output = run(sys.argv[1], {**good, name: text})
    assert code == 1 and expected in output, f"{name}: wanted {expected!r}, got {code}: {output}"
print(f"{len(BAD)} breaches found")
