// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "base/io.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;
using namespace brevis::test;

namespace {

const std::function<Status(uint64_t)> kGoOn = [](uint64_t) { return Status(); };

}  // namespace

TEST_CASE("a file into another, empty or not, of every kind of length") {
  const TempDir dir;
  for (const size_t length : {size_t{0}, size_t{1}, size_t{4096}, (size_t{1} << 20) + 1, (size_t{9} << 20) + 7}) {
    const ByteVector bytes = random_bytes(length, length + 1);
    write_file(dir / "from", bytes);
    const File from = File::open(dir / "from").value();
    AtomicFile whole = AtomicFile::create(dir / "to", true).value();
    uint64_t last = 0;
    REQUIRE(whole.append_file(from, length, [&](uint64_t done) {
      CHECK(done >= last);
      last = done;
      return Status();
    }));
    CHECK(last == length);
    CHECK(whole.size() == length);
    REQUIRE(whole.commit());
    CHECK(read_file(dir / "to") == bytes);

    AtomicFile behind = AtomicFile::create(dir / "to", true).value();
    REQUIRE(behind.append(as_bytes("head")));
    REQUIRE(behind.append_file(from, length / 2, kGoOn));
    REQUIRE(behind.append(as_bytes("tail")));
    REQUIRE(behind.commit());
    ByteVector want(4 + length / 2 + 4);
    std::copy_n("head", 4, want.begin());
    std::copy_n(bytes.begin(), length / 2, want.begin() + 4);
    std::copy_n("tail", 4, want.end() - 4);
    CHECK(read_file(dir / "to") == want);
  }
}

TEST_CASE("a file that is shorter than said, and a copy that is stopped") {
  const TempDir dir;
  write_file(dir / "from", random_bytes(100'000, 1));
  const File from = File::open(dir / "from").value();
  {
    AtomicFile to = AtomicFile::create(dir / "to", true).value();
    CHECK(to.append_file(from, 100'001, kGoOn).error().kind() == Errc::truncated);
    const auto stop = [](uint64_t) -> Status { return make_error(Errc::cancelled, "stopped"); };
    CHECK(to.append_file(from, 100'000, stop).error().kind() == Errc::cancelled);
  }
  CHECK(names_in(dir.path()) == std::vector<std::string>{"from"});
}
