// SPDX-License-Identifier: Apache-2.0
#include "log_sink.h"

#include <doctest/doctest.h>
#include <stdio.h>

#include "support/temp_dir.h"

using namespace brevis;
using namespace brevis::fs;

TEST_CASE("text lines keep strangers' bytes in one line") {
  CHECK(format_text(LogLevel::warning, "message", {}) == "warning: message");
  CHECK(format_text(LogLevel::error, "a\nb", {{"archive", "x\x1b[2J\r"}, {"offset", "12"}}) ==
        "error: a\\x0ab archive=x\\x1b[2J\\x0d offset=12");
  CHECK(format_text(LogLevel::info, "m", {{"path", "/a b"}, {"none", ""}, {"said", "a=\"b\""}, {"n", "1"}}) ==
        "info: m path=\"/a b\" none=\"\" said=\"a=\\\"b\\\"\" n=1");
  CHECK(format_text(LogLevel::info, "grün", {}) == "info: grün");
}

TEST_CASE("JSON lines are JSON whatever the bytes") {
  const auto line = [](std::string_view message) {
    const std::string text = format_json(LogLevel::error, message, {{"tensor", "a\"b"}});
    const size_t at = text.find("\"level\"");
    return text.substr(at);
  };
  CHECK(line("plain") == R"("level":"error","message":"plain","tensor":"a\"b"})");
  CHECK(line("a\\b\n\x7f") == R"("level":"error","message":"a\\b\u000a\u007f","tensor":"a\"b"})");
  CHECK(line("grün 😀") == R"("level":"error","message":"grün 😀","tensor":"a\"b"})");
  // not UTF-8: stray and cut sequences, overlong forms, surrogates, beyond the last code point
  CHECK(line("\xff\x80") == R"("level":"error","message":"\u00ff\u0080","tensor":"a\"b"})");
  CHECK(line("\xc3") == R"("level":"error","message":"\u00c3","tensor":"a\"b"})");
  CHECK(line("\xc0\xaf") == R"("level":"error","message":"\u00c0\u00af","tensor":"a\"b"})");
  CHECK(line("\xed\xa0\x80") == R"("level":"error","message":"\u00ed\u00a0\u0080","tensor":"a\"b"})");
  CHECK(line("\xf4\x90\x80\x80") == R"("level":"error","message":"\u00f4\u0090\u0080\u0080","tensor":"a\"b"})");
  CHECK(line("\xe0\x80\x80") == R"("level":"error","message":"\u00e0\u0080\u0080","tensor":"a\"b"})");
}

TEST_CASE("a log file is appended to, and opened anew after a rotation") {
  test::TempDir dir;
  Options options;
  options.log_file = dir / "log";
  options.log_format = LogFormat::text;
  test::write_file(options.log_file, std::string_view("before\n"));
  REQUIRE(install_log(options));
  log(LogLevel::debug, "not at this level");
  log(LogLevel::info, "one");
  REQUIRE(rename(options.log_file.c_str(), (dir / "log.1").c_str()) == 0);
  log(LogLevel::info, "two");
  reopen_log();
  log(LogLevel::info, "three");
  const ByteVector old_bytes = test::read_file(dir / "log.1"), new_bytes = test::read_file(dir / "log");
  const std::string old_text(old_bytes.begin(), old_bytes.end()), new_text(new_bytes.begin(), new_bytes.end());
  CHECK(old_text.starts_with("before\n"));
  CHECK(old_text.find("info: one\n") != std::string::npos);
  CHECK(old_text.find("info: two\n") != std::string::npos);
  CHECK(old_text.find("level") == std::string::npos);
  CHECK(new_text.find("info: three\n") != std::string::npos);
  options.log_file = dir / "missing/log";
  CHECK(install_log(options).error().kind() == Errc::not_found);
  set_log_sink({});
}
