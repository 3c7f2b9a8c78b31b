// SPDX-License-Identifier: Apache-2.0
//
// From a header's entries and the file's size to the verdict. Questions are asked in this order, and the first that
// applies decides: is there a header at all; is the file shorter than its header says; is a rule broken. Within the
// rules, those of the text come first, by place, then those of the layout, by place in the data.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "base/io.h"
#include "brevis/model.h"
#include "model/json_scan.h"
#include "model/safetensors.h"

namespace brevis {
namespace {

using model::HeaderEntry;
using model::ParsedHeader;

std::string plural(uint64_t n, const char* noun) { return std::to_string(n) + " " + noun + (n == 1 ? "" : "s"); }

Verdict no_safetensors(ByteSpan first_bytes, uint64_t file_size, std::string reason, uint64_t offset) {
  Verdict verdict;
  verdict.kind = VerdictKind::not_safetensors;
  verdict.reason = std::move(reason);
  verdict.reason_offset = offset;
  verdict.looks_like = describe_content(first_bytes, file_size);
  return verdict;
}

void mark_truncated(Verdict& verdict, uint64_t missing, uint64_t file_size) {
  verdict.kind = VerdictKind::truncated;
  verdict.missing_bytes = missing;
  verdict.reason = "file is " + plural(missing, "byte") + " short of what its header declares";
  verdict.reason_offset = file_size;
}

// The bytes of shape x dtype: by checked multiplication left to right, as the reference does, so that [0, 2^63, 4]
// passes and [2^63, 4, 0] does not.
struct ContentSize {
  bool overflow = false, uneven = false;
  uint64_t bytes = 0;
};
ContentSize content_size(const TensorInfo& tensor) {
  ContentSize size;
  uint64_t product = 1;
  for (const uint64_t dim : tensor.shape)
    if (__builtin_mul_overflow(product, dim, &product)) return {true, false, 0};
  if (__builtin_mul_overflow(product, uint64_t{dtype_info(tensor.dtype).bits}, &product)) return {true, false, 0};
  size.uneven = product % 8 != 0;
  size.bytes = product / 8;
  return size;
}

std::string shape_text(const TensorInfo& tensor) {
  std::string out = "[";
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (i == 8) return out + ",...]";
    if (i != 0) out += ',';
    out += std::to_string(tensor.shape[i]);
  }
  out += ']';
  return out;
}

class Judge {
 public:
  Judge(ParsedHeader header, uint64_t header_bytes, uint64_t file_size)
      : header_(std::move(header)), data_start_(8 + header_bytes), data_bytes_(file_size - data_start_) {
    verdict_.prefix_bytes = data_start_;
    verdict_.metadata_present = header_.metadata_present;
    verdict_.metadata = std::move(header_.metadata);
  }
  Verdict judge();

 private:
  bool layout_holds();
  bool entry_fault(const HeaderEntry& entry, const std::string& message) {
    return broken(data_start_ + std::min(entry.begin, entry.end),
                  "tensor " + model::quoted(entry.info.name) + ": " + message);
  }
  bool broken(uint64_t offset, std::string message) {
    verdict_.kind = VerdictKind::lenient;
    verdict_.reason = std::move(message);
    verdict_.reason_offset = offset;
    return false;
  }
  std::vector<bool> find_overlaps() const;
  void keep_sane();

  ParsedHeader header_;
  const uint64_t data_start_, data_bytes_;
  Verdict verdict_;
};

// The rules of the layout, over entries sorted by (begin, end). Says false at the first that is broken.
bool Judge::layout_holds() {
  uint64_t previous_end = 0;
  for (const HeaderEntry& entry : header_.entries) {
    if (entry.end < entry.begin) {
      return entry_fault(entry, "ends at data byte " + std::to_string(entry.end) + ", before it begins at " +
                                    std::to_string(entry.begin));
    }
    if (entry.begin != previous_end) {
      return entry_fault(entry, "begins at data byte " + std::to_string(entry.begin) +
                                    ", but the one before it ends at " + std::to_string(previous_end) +
                                    (entry.begin < previous_end ? " (overlap)" : " (hole)"));
    }
    previous_end = entry.end;
    const ContentSize size = content_size(entry.info);
    const std::string what = "shape " + shape_text(entry.info) + " of " + entry.info.dtype_name;
    if (size.overflow) return entry_fault(entry, what + " is more than 64 bits can count");
    if (size.uneven) return entry_fault(entry, what + " does not fill whole bytes");
    if (size.bytes != entry.end - entry.begin)
      return entry_fault(entry, what + " takes " + plural(size.bytes, "byte") + ", its offsets span " +
                                    std::to_string(entry.end - entry.begin));
  }
  if (previous_end == data_bytes_) return true;
  return broken(data_start_ + previous_end,
                plural(data_bytes_ - previous_end, "trailing byte") + " after the last tensor's end");
}

// Which entries share a byte with another (or, when empty, lie strictly inside one). Sorted by begin it is enough to
// know the one that reaches furthest: whoever begins before its end overlaps it.
std::vector<bool> Judge::find_overlaps() const {
  const std::vector<HeaderEntry>& entries = header_.entries;
  std::vector<bool> overlaps(entries.size());
  size_t furthest = SIZE_MAX;
  for (size_t i = 0; i < entries.size(); ++i) {
    const HeaderEntry& here = entries[i];
    if (here.end < here.begin) continue;
    const bool empty = here.end == here.begin;
    if (furthest != SIZE_MAX && here.begin < entries[furthest].end) {
      if (!empty) overlaps[furthest] = overlaps[i] = true;
      if (empty && here.begin > entries[furthest].begin) overlaps[i] = true;
    }
    if (!empty && (furthest == SIZE_MAX || here.end > entries[furthest].end)) furthest = i;
  }
  return overlaps;
}

void Judge::keep_sane() {
  const std::vector<bool> overlaps = find_overlaps();
  verdict_.tensors.reserve(header_.entries.size());
  for (size_t i = 0; i < header_.entries.size(); ++i) {
    HeaderEntry& entry = header_.entries[i];
    if (!entry.whole || entry.repeated_name || overlaps[i]) continue;
    if (entry.begin > entry.end || entry.end > data_bytes_) continue;
    if (entry.info.dtype != Dtype::unknown) {
      const ContentSize size = content_size(entry.info);
      if (size.overflow || size.uneven || size.bytes != entry.end - entry.begin) continue;
    }
    entry.info.span = {data_start_ + entry.begin, entry.end - entry.begin};
    verdict_.tensors.push_back(std::move(entry.info));
  }
}

Verdict Judge::judge() {
  std::sort(header_.entries.begin(), header_.entries.end(), [](const HeaderEntry& a, const HeaderEntry& b) {
    if (a.begin != b.begin) return a.begin < b.begin;
    if (a.end != b.end) return a.end < b.end;
    return a.info.ordinal < b.info.ordinal;
  });
  // An end that no file could have says nothing about this one; it is a broken rule instead.
  uint64_t last_end = 0;
  const uint64_t believable = static_cast<uint64_t>(INT64_MAX) - data_start_;
  for (const HeaderEntry& entry : header_.entries)
    if (entry.begin <= entry.end && entry.end <= believable) last_end = std::max(last_end, entry.end);

  if (last_end > data_bytes_) {
    mark_truncated(verdict_, last_end - data_bytes_, data_start_ + data_bytes_);
  } else {
    verdict_.kind = VerdictKind::valid;
    if (data_start_ - 8 > model::kMaxValidHeader) {
      broken(0, "header of " + std::to_string(data_start_ - 8) + " bytes is above the limit of " +
                    std::to_string(model::kMaxValidHeader));
    } else if (header_.fault) {
      broken(8 + header_.fault->offset,
             header_.fault->message + " (header byte " + std::to_string(header_.fault->offset) + ")");
    } else {
      layout_holds();
    }
    if (verdict_.kind == VerdictKind::lenient) verdict_.trailing_bytes = data_bytes_ - last_end;
  }
  keep_sane();
  return std::move(verdict_);
}

// The file ends within its header: a safetensors file cut short, if what is there could go on as a JSON object.
Verdict judge_cut_header(ByteSpan prefix, uint64_t file_size, uint64_t header_bytes, std::string_view text) {
  const ParsedHeader header = model::parse_header(text);
  if (header.outcome == ParsedHeader::Outcome::no_json) {
    return no_safetensors(prefix, file_size,
                          header.fault->message + " (header byte " + std::to_string(header.fault->offset) + ")",
                          8 + header.fault->offset);
  }
  Verdict verdict;
  mark_truncated(verdict, header_bytes - (file_size - 8), file_size);
  verdict.reason += ": the header itself, of " + plural(header_bytes, "byte") + ", is cut";
  return verdict;
}

bool may_hold_object(ByteSpan header) {
  const auto is_space = [](uint8_t c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  const auto at = std::find_if_not(header.begin(), header.end(), is_space);
  return at == header.end() || *at == '{';
}

}  // namespace

std::string_view verdict_name(VerdictKind kind) {
  switch (kind) {
    case VerdictKind::valid: return "valid";
    case VerdictKind::lenient: return "lenient";
    case VerdictKind::truncated: return "truncated";
    case VerdictKind::not_safetensors: return "not safetensors";
  }
  return "not safetensors";
}

Verdict examine_prefix(ByteSpan prefix, uint64_t file_size) {
  if (file_size < 8 || prefix.size() < 8) {
    return no_safetensors(
        prefix, file_size,
        "file of " + plural(file_size, "byte") + " is too short for the 8 bytes of the header's length", 0);
  }
  uint64_t header_bytes = 0;
  for (unsigned i = 0; i < 8; ++i) header_bytes |= uint64_t{prefix[i]} << 8 * i;
  if (header_bytes > model::kMaxReadHeader) {
    return no_safetensors(prefix, file_size,
                          "the first 8 bytes give a header of " + std::to_string(header_bytes) + " bytes, above " +
                              std::to_string(model::kMaxReadHeader),
                          0);
  }
  const bool cut = header_bytes > file_size - 8;
  const uint64_t wanted = cut ? file_size : 8 + header_bytes;
  const ByteSpan header = prefix.subspan(8, std::min<uint64_t>(prefix.size(), wanted) - 8);
  if (!may_hold_object(header))
    return no_safetensors(prefix, file_size, "header is not a JSON object: it does not begin with '{'", 8);
  if (prefix.size() < wanted) return no_safetensors(prefix, file_size, "header was not read whole", prefix.size());
  const std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  if (cut && header_bytes >= 2) return judge_cut_header(prefix, file_size, header_bytes, text);
  if (const std::optional<size_t> bad = model::find_invalid_utf8(text)) {
    return no_safetensors(prefix, file_size, "header is not UTF-8 (header byte " + std::to_string(*bad) + ")",
                          8 + *bad);
  }
  ParsedHeader parsed = model::parse_header(text);
  if (parsed.outcome != ParsedHeader::Outcome::object) {
    return no_safetensors(prefix, file_size,
                          parsed.fault->message + " (header byte " + std::to_string(parsed.fault->offset) + ")",
                          8 + parsed.fault->offset);
  }
  return Judge(std::move(parsed), header_bytes, file_size).judge();
}

Result<Verdict> examine_file(const std::string& path) {
  BREVIS_ASSIGN(const File file, File::open(path));
  BREVIS_ASSIGN(const FileStat stat, file.stat());
  // Enough to know most files that are something else, without trusting what their first 8 bytes say.
  constexpr uint64_t kFirstBytes = 4096;
  ByteVector prefix(std::min(stat.size, kFirstBytes));
  BREVIS_TRY(file.read_exact(0, prefix));
  if (prefix.size() < 8) return examine_prefix(prefix, stat.size);
  uint64_t header_bytes = 0;
  for (unsigned i = 0; i < 8; ++i) header_bytes |= uint64_t{prefix[i]} << 8 * i;
  if (header_bytes <= model::kMaxReadHeader && may_hold_object(ByteSpan(prefix).subspan(8))) {
    const size_t have = prefix.size();
    const uint64_t wanted = std::min(stat.size, 8 + header_bytes);
    if (wanted > have) {
      prefix.resize(wanted);
      BREVIS_TRY(file.read_exact(have, MutByteSpan(prefix).subspan(have)));
    }
  }
  return examine_prefix(prefix, stat.size);
}

}  // namespace brevis
