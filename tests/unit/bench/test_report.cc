// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "brevis/bench.h"
#include "support/temp_dir.h"

using namespace brevis;

namespace {

std::string page_of(const BenchReport& report) {
  test::TempDir dir;
  REQUIRE(write_bench_page(report, dir / "p.html"));
  const ByteVector bytes = test::read_file(dir / "p.html");
  return {bytes.begin(), bytes.end()};
}

bool has(const std::string& page, const char* text) { return page.find(text) != std::string::npos; }

}  // namespace

TEST_CASE("report: a page of nothing, and of a file with nothing in it, has no odd numbers") {
  BenchReport report;
  CHECK(has(page_of(report), "</html>"));
  report.files.emplace_back();
  report.files[0].ways.resize(3);
  report.files[0].dtypes.resize(1);
  report.files[0].groups.resize(1);
  const std::string page = page_of(report);
  for (const char* odd : {"nan", "inf\"", "inf<", "e+", "e-0"}) CHECK_FALSE(has(page, odd));
  CHECK(has(page, "<svg"));
}

TEST_CASE("report: text of files is escaped") {
  BenchReport report;
  report.cpu = "a & b";
  BenchFile file;
  file.path = "<script>\"x\x01";
  BenchGroup group;
  group.dtype = "<i>";
  group.program = "u8 = <b>";
  group.ways.push_back({"avx<2", 1, {}, {}});
  file.ways = group.ways;
  file.groups = file.dtypes = {group};
  report.files = {file};
  const std::string page = page_of(report);
  CHECK(has(page, "a &amp; b"));
  CHECK(has(page, "&lt;script&gt;&quot;x "));
  for (const char* raw : {"<script", "<i>", "<b>", "avx<2", "\x01"}) CHECK_FALSE(has(page, raw));
}

TEST_CASE("report: a page that cannot be written is an Error that names it") {
  const auto status = write_bench_page({}, "/nonexistent/p.html");
  REQUIRE(!status);
  CHECK(status.error().kind() == Errc::not_found);
  CHECK(has(status.error().message(), "/nonexistent/p.html"));
}
