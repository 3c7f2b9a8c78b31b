// SPDX-License-Identifier: Apache-2.0
//
// A name for files that are not safetensors: people see it in place of "header too large" when a download went wrong
// or a checkpoint is of another kind. Names only what the first bytes prove; nothing here decides how bytes are coded.
#include <algorithm>
#include <cctype>
#include <cstring>
#include <string_view>

#include "brevis/model.h"
#include "model/json_scan.h"

namespace brevis {
namespace {

using namespace std::string_view_literals;

struct Magic {
  size_t offset;
  std::string_view bytes;
  const char* name;
};

// Longer and rarer marks first where one begins like another.
constexpr Magic kMagics[] = {
    {0, "BREVIS\r\n"sv, "Brevis archive"},
    {0, "version https://git-lfs"sv, "Git LFS pointer (the real file was not downloaded: git lfs pull)"},
    {0, "version https://hawser"sv, "Git LFS pointer (the real file was not downloaded: git lfs pull)"},
    {0, "GGUF"sv, "GGUF"},
    {0, "FUGG"sv, "GGUF (big-endian)"},
    {0, "lmgg"sv, "GGML"},
    {0, "fmgg"sv, "GGMF"},
    {0, "tjgg"sv, "GGJT"},
    {0, "PK\x03\x04"sv, "zip archive (PyTorch checkpoint?)"},
    {0, "PK\x05\x06"sv, "zip archive (empty)"},
    {0, "\x80\x02\x8a\x0al\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"sv, "pickle (PyTorch checkpoint of the old format)"},
    {0, "\x89HDF\r\n\x1a\n"sv, "HDF5 (Keras weights?)"},
    {0, "\x93NUMPY"sv, "NumPy array"},
    {4, "TFL3"sv, "TensorFlow Lite model"},
    {0, "PAR1"sv, "Parquet"},
    {0, "ARROW1"sv, "Arrow"},
    {0, "SQLite format 3\0"sv, "SQLite database"},
    {0, "\x1f\x8b"sv, "gzip"},
    {0, "\x28\xb5\x2f\xfd"sv, "zstd"},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     "xz"},
    {0, "BZh"sv, "bzip2"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "7-Zip archive"},
    {0, "Rar!\x1a\x07"sv, "RAR archive"},
    {0, "\x04\x22\x4d\x18"sv, "LZ4"},
    {257, "ustar"sv, "tar archive"},
    {0,
     "\x7f"
     "ELF"sv,
     "ELF program or library"},
    {0, "\x89PNG\r\n\x1a\n"sv, "PNG image"},
    {0, "\xff\xd8\xff"sv, "JPEG image"},
    {0, "GIF8"sv, "GIF image"},
    {0, "%PDF-"sv, "PDF document"},
};

std::string_view as_text(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// `prefix` in lower case; blanks of `text` have been passed.
bool begins_with_any_case(std::string_view text, std::string_view prefix) {
  return text.size() >= prefix.size() && std::equal(prefix.begin(), prefix.end(), text.begin(), [](char p, char c) {
           return p == static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
         });
}

// A pickle of protocol 2 to 5: the mark, the version, then an opcode that a state dict can begin with.
bool looks_pickled(std::string_view text) {
  return text.size() >= 3 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5 &&
         std::strchr("}](c\x8a\x95X\x8cqN", text[2]) != nullptr && text[2] != '\0';
}

// The first bytes of a longer file may end within a character.
bool is_text(std::string_view text, bool longer) {
  const auto bad = model::find_invalid_utf8(text);
  if (bad && !(longer && *bad + 4 > text.size())) return false;
  return std::all_of(text.begin(), text.end(), [](char c) {
    return static_cast<uint8_t>(c) >= 0x20 ? c != 0x7f : c == '\n' || c == '\r' || c == '\t' || c == '\f';
  });
}

std::string describe_text(std::string_view text) {
  const size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) return "blank text";
  const std::string_view body = text.substr(start);
  for (const std::string_view tag : {"<!doctype html"sv, "<html"sv, "<head"sv, "<body"sv})
    if (begins_with_any_case(body, tag)) return "HTML page (a failed download?)";
  if (begins_with_any_case(body, "<?xml") || begins_with_any_case(body, "<error>"))
    return body.substr(0, 400).find("Error") != std::string_view::npos ? "XML error message (a failed download?)"
                                                                       : "XML";
  if (body[0] == '{' || (body[0] == '[' && body.size() > 1)) return "JSON";
  return "text";
}

}  // namespace

std::string describe_content(ByteSpan first_bytes, uint64_t file_size) {
  if (file_size == 0) return "empty file";
  std::string_view text = as_text(first_bytes);
  for (const Magic& magic : kMagics)
    if (text.size() >= magic.offset && text.substr(magic.offset).starts_with(magic.bytes)) return magic.name;
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  if (looks_pickled(text)) return "pickle (PyTorch checkpoint?)";
  if (!text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c == 0; }))
    return "zeros (a download that was never filled in?)";
  if (text.size() > 8) {
    uint64_t length = 0;
    for (unsigned i = 0; i < 8; ++i) length |= uint64_t{first_bytes[i]} << 8 * i;
    if (text[8] == '{' && length >> 32 == 0) return "safetensors with a damaged header";
  }
  if (!text.empty() && is_text(text.substr(0, 512), file_size > std::min<size_t>(text.size(), 512)))
    return describe_text(text);
  return "unknown binary data";
}

}  // namespace brevis
