// SPDX-License-Identifier: Apache-2.0
//
// The C face: null arguments, structs of other sizes, several threads; what it reads is the file.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "brevis/c.h"
#include "support/safetensors_writer.h"
#include "support/temp_dir.h"
#include "support/weights.h"

using namespace brevis;

namespace {

struct Packed {
  test::TempDir dir;
  std::string plain = dir / "m.safetensors", packed = dir / "m.brv";
  ByteVector bytes;
  brevis_archive* archive = nullptr;
  Packed() {
    bytes = test::safetensors_bytes(test::mixed_model(4, 128));
    test::write_file(plain, bytes);
    REQUIRE(brevis_pack(plain.c_str(), packed.c_str(), nullptr, nullptr) == BREVIS_OK);
    REQUIRE(brevis_open(packed.c_str(), &archive) == BREVIS_OK);
  }
  ~Packed() { brevis_close(archive); }
};

}  // namespace

TEST_CASE("null arguments and structs without a size are refused, not followed") {
  Packed p;
  brevis_archive* none = nullptr;
  int answer = 0;
  char byte = 0;
  const char* text = nullptr;
  brevis_info unsized = {};
  CHECK(brevis_open(nullptr, &none) == BREVIS_E_ARGUMENT);
  CHECK(brevis_open(p.packed.c_str(), nullptr) == BREVIS_E_ARGUMENT);
  CHECK(brevis_is_archive(nullptr, &answer) == BREVIS_E_ARGUMENT);
  CHECK(brevis_get_info(nullptr, &unsized) == BREVIS_E_ARGUMENT);
  CHECK(brevis_get_info(p.archive, &unsized) == BREVIS_E_ARGUMENT);
  CHECK(brevis_get_info(p.archive, nullptr) == BREVIS_E_ARGUMENT);
  CHECK(brevis_get_tensor(p.archive, 0, nullptr) == BREVIS_E_ARGUMENT);
  CHECK(brevis_find_tensor(p.archive, nullptr, nullptr) == BREVIS_E_ARGUMENT);
  CHECK(brevis_get_metadata(p.archive, 0, nullptr, &text) == BREVIS_E_ARGUMENT);
  CHECK(brevis_read(nullptr, 0, &byte, 1, 1) == BREVIS_E_ARGUMENT);
  CHECK(brevis_read(p.archive, 0, nullptr, 1, 1) == BREVIS_E_ARGUMENT);
  CHECK(brevis_read(p.archive, 0, nullptr, 0, 1) == BREVIS_OK);
  CHECK(brevis_pack(nullptr, nullptr, nullptr, nullptr) == BREVIS_E_ARGUMENT);
  CHECK(brevis_check(nullptr, nullptr, nullptr) == BREVIS_E_ARGUMENT);
  CHECK(std::strlen(brevis_message()) > 0);
  brevis_close(nullptr);
}

TEST_CASE("a struct gets what its size says and no byte more") {
  Packed p;
  struct {
    brevis_info info;
    unsigned char guard[16];
  } older;
  std::memset(&older, 0xa5, sizeof older);
  older.info.size = offsetof(brevis_info, archive_bytes);  // as a program built with less would say
  CHECK(brevis_get_info(p.archive, &older.info) == BREVIS_OK);
  CHECK(older.info.original_bytes == p.bytes.size());
  CHECK(older.info.size == offsetof(brevis_info, archive_bytes));
  CHECK(older.info.archive_bytes == 0xa5a5a5a5a5a5a5a5);
  older.info.size = sizeof older;  // as one built with more
  CHECK(brevis_get_info(p.archive, &older.info) == BREVIS_OK);
  CHECK(older.info.archive_bytes > 0);
  CHECK(older.guard[0] == 0xa5);
}

TEST_CASE("tensors and bytes are the file's, with any number of threads") {
  Packed p;
  brevis_info info = {};
  info.size = sizeof info;
  REQUIRE(brevis_get_info(p.archive, &info) == BREVIS_OK);
  CHECK(info.is_safetensors == 1);
  REQUIRE(info.tensors > 0);
  for (size_t i = 0; i < info.tensors; ++i) {
    brevis_tensor tensor = {}, again = {};
    tensor.size = again.size = sizeof tensor;
    REQUIRE(brevis_get_tensor(p.archive, i, &tensor) == BREVIS_OK);
    REQUIRE(brevis_find_tensor(p.archive, tensor.name, &again) == BREVIS_OK);
    CHECK(again.offset == tensor.offset);
    ByteVector out(tensor.bytes);
    CHECK(brevis_read(p.archive, tensor.offset, out.data(), out.size(), 1) == BREVIS_OK);
    CHECK(std::equal(out.begin(), out.end(), p.bytes.begin() + static_cast<std::ptrdiff_t>(tensor.offset)));
  }
  brevis_tensor none = {};
  none.size = sizeof none;
  CHECK(brevis_get_tensor(p.archive, info.tensors, &none) == BREVIS_E_NOT_FOUND);
  CHECK(brevis_find_tensor(p.archive, "no such tensor", &none) == BREVIS_E_NOT_FOUND);
  std::vector<std::jthread> readers;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 4; ++i)
    readers.emplace_back([&] {
      ByteVector out(p.bytes.size());
      if (brevis_read(p.archive, 0, out.data(), out.size(), 0) != BREVIS_OK || out != p.bytes) ++wrong;
      if (brevis_read(p.archive, UINT64_MAX, out.data(), 1, 0) != BREVIS_E_ARGUMENT) ++wrong;
    });
  readers.clear();
  CHECK(wrong == 0);
}

TEST_CASE("a large read is put together from pieces, and one bad piece fails it") {
  test::TempDir dir;
  const auto words = test::gaussian_words(Dtype::BF16, 10 << 20, 5);
  test::write_file(dir / "words", words);
  REQUIRE(brevis_pack((dir / "words").c_str(), (dir / "words.brv").c_str(), nullptr, nullptr) == BREVIS_OK);
  brevis_archive* archive = nullptr;
  REQUIRE(brevis_open((dir / "words.brv").c_str(), &archive) == BREVIS_OK);
  ByteVector out(words.size());
  for (unsigned threads : {0u, 1u, 3u}) {
    std::fill(out.begin(), out.end(), uint8_t{0});
    CHECK(brevis_read(archive, 0, out.data(), out.size(), threads) == BREVIS_OK);
    CHECK(out == words);
  }
  brevis_close(archive);
  auto bad = test::read_file(dir / "words.brv");
  bad[bad.size() / 2] ^= 1;
  test::write_file(dir / "words.brv", bad);
  REQUIRE(brevis_open((dir / "words.brv").c_str(), &archive) == BREVIS_OK);
  CHECK(brevis_read(archive, 0, out.data(), out.size(), 3) == BREVIS_E_CORRUPT);
  CHECK(std::string(brevis_message()).find("words.brv") != std::string::npos);
  brevis_close(archive);
  int findings = 0;
  const auto count = [](void* context, int severity, const char*, const char*, const char*) {
    *static_cast<int*>(context) += severity == 2;
  };
  CHECK(brevis_check((dir / "words.brv").c_str(), count, &findings) == BREVIS_E_CORRUPT);
  CHECK(findings > 0);
}
