// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cerrno>

#include "command.h"
#include "output.h"
#include "progress.h"
#include "support/temp_dir.h"

using namespace brevis;
using namespace brevis::tools;

TEST_CASE("text from files cannot steer a terminal") {
  CHECK(printable("plain \xc3\xa9 \xf0\x9f\x98\x80") == "plain \xc3\xa9 \xf0\x9f\x98\x80");
  CHECK(printable("\x1b[2J\r\n\t\x7f") == "\\x1b[2J\\x0d\\x0a\\x09\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m") ==
        "\\x9b"
        "31m");
  CHECK(printable("\xc2\xa9") == "\xc2\xa9");
  CHECK(printable("\xc2") == "\xc2");
}

TEST_CASE("lines wrap at the width and indent") {
  CHECK(wrapped("a bb ccc", 80, 4) == "a bb ccc");
  CHECK(wrapped("aaaa bbbb cccc", 9, 2) == "aaaa bbbb\n  cccc");
  CHECK(wrapped("toolongtofit b", 4, 1) == "toolongtofit\n b");
  CHECK(wrapped("", 4, 1) == "");
}

TEST_CASE("the line of progress fits the terminal and says what is known") {
  const std::string line = progress_line("models/a.safetensors", 500'000'000, 2'000'000'000, 330'000'000, 2, 80);
  CHECK(line == "25.0%  500 MB of 2.00 GB  250 MB/s  ratio 1.515  0:06 left  a.safetensors");
  for (size_t width : {1, 5, 20, 40, 79})
    CHECK(progress_line("models/a.safetensors", 1, 2, 3, 4, width).size() < std::max<size_t>(width, 1));
  CHECK(progress_line("a", 0, 0, 0, 0, 80) == "0 B  a");
  CHECK(progress_line("a", 1, 1'000'000'000, 0, 10, 80).find("99:59:59 left") != std::string::npos);
}

TEST_CASE("exit codes: the target's failures are 73, the others their kind's") {
  const test::TempDir dir;
  test::write_file(dir / "source", "x");
  const auto code = [&](Error error, const char* target) {
    return file_exit_code(error, dir / "source", *target ? dir / target : "");
  };
  CHECK(code(Error::from_errno(ENOENT, "creating"), "none/x") == 73);
  CHECK(file_exit_code(Error::from_errno(ENOENT, "opening"), dir / "gone", dir / "x") == 66);
  CHECK(code(make_error(Errc::not_found, "no such tensor"), "x") == 66);
  CHECK(code(make_error(Errc::invalid_argument, "exists"), "source") == 73);
  CHECK(code(make_error(Errc::invalid_argument, "nonsense"), "x") == 2);
  CHECK(code(Error::from_errno(ENOTDIR, "creating"), "source/x") == 73);
  CHECK(code(Error::from_errno(EROFS, "creating"), "x") == 73);
  CHECK(code(Error::from_errno(EIO, "reading"), "x") == 74);
  CHECK(code(Error::from_errno(ENOSPC, "writing"), "x") == 74);
  CHECK(code(Error::from_errno(ENOSPC, "creating").creating(), "x") == 73);
  CHECK(code(Error::from_errno(EACCES, "creating"), "x") == 77);
  CHECK(code(make_error(Errc::corrupt, "damaged"), "x") == 65);
  CHECK(code(make_error(Errc::changed, "changed"), "x") == 75);
  CHECK(code(make_error(Errc::internal, "fault"), "x") == 70);
}
