// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "brevis/model.h"
#include "support/temp_dir.h"

using namespace brevis;
using namespace std::string_literals;

TEST_CASE("F30: what is not safetensors is called by its name") {
  struct Case {
    std::string bytes;
    const char* name;
  };
  const Case cases[] = {
      {"", "empty file"},
      {"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 1\n", "Git LFS pointer"},
      {"PK\x03\x04\x00\x00"s, "zip archive (PyTorch checkpoint?)"},
      {"\x80\x02}q\x00("s, "pickle"},
      {"\x80\x04\x95\x10\x00"s, "pickle"},
      {"\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."s, "pickle (PyTorch checkpoint of the old format)"},
      {"GGUF\x03\x00\x00\x00"s, "GGUF"},
      {"\n <!DOCTYPE html><html>", "HTML page"},
      {"<html><head>", "HTML page"},
      {"<?xml version=\"1.0\"?><Error><Code>AccessDenied</Code>", "XML error message"},
      {"{\"error\": \"not found\"}", "JSON"},
      {"\x89HDF\r\n\x1a\n"s, "HDF5"},
      {"\x93NUMPY\x01\x00"s, "NumPy array"},
      {"\x1f\x8b\x08"s, "gzip"},
      {"\x28\xb5\x2f\xfd"s, "zstd"},
      {"BREVIS\r\n\x01"s, "Brevis archive"},
      {std::string(257, 'x') + "ustar", "tar archive"},
      {"just some words\n", "text"},
      {std::string(64, '\0'), "zeros"},
      {"\x05\x00\x00\x00\x00\x00\x00\x00{\"a\":"s, "safetensors with a damaged header"},
      {"\xde\xad\xbe\xef\x01\x02\x03\x04\x05"s, "unknown binary data"},
      {"\x80", "unknown binary data"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.bytes);
    const std::string name = describe_content(test::as_bytes(c.bytes), c.bytes.size());
    CHECK_MESSAGE(name.find(c.name) == 0, name);
    if (c.bytes.size() < 8) continue;
    const Verdict verdict = examine_prefix(test::as_bytes(c.bytes), c.bytes.size());
    CHECK((verdict.kind != VerdictKind::not_safetensors || verdict.looks_like == name));
  }
}

TEST_CASE("F30: a pointer file of 130 bytes") {
  const test::TempDir dir;
  std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:";
  pointer += std::string(64, 'a') + "\nsize 4";
  pointer += std::string(130 - pointer.size() - 1, '0') + "\n";
  test::write_file(dir / "model.safetensors", pointer);
  const auto verdict = examine_file(dir / "model.safetensors");
  REQUIRE(verdict);
  CHECK(verdict->kind == VerdictKind::not_safetensors);
  CHECK(verdict->looks_like.find("Git LFS pointer") == 0);
}
