// SPDX-License-Identifier: Apache-2.0
//
// Opening: header, footer, index, each against its checksum and against the others, so that no flipped bit and no torn
// end goes unseen. Tables are loaded when a record is first decoded and kept within a budget: a mount holds many
// archives open, and most of their tables are never asked for.
#include "archive/reader.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "archive/bases.h"
#include "archive/format.h"
#include "base/checksum.h"
#include "base/coding.h"
#include "base/threads.h"

namespace brevis::archive {

namespace {

Error corrupt(std::string what) { return make_error(Errc::corrupt, std::move(what)); }

struct Footer {
  uint64_t index_offset, index_length, checksum;
};

Result<Footer> parse_footer(ByteSpan bytes) {
  ByteReader in(bytes);
  Footer footer{};
  BREVIS_ASSIGN(footer.index_offset, in.fixed<uint64_t>());
  BREVIS_ASSIGN(footer.index_length, in.fixed<uint64_t>());
  BREVIS_ASSIGN(footer.checksum, in.fixed<uint64_t>());
  BREVIS_ASSIGN(const uint64_t magic, in.fixed<uint64_t>());
  if (magic != kFooterMagic) return corrupt("no archive footer: the file was cut or never finished");
  return footer;
}

// The size that the header gives to the archive.
Status check_size(const Header& header, uint64_t file_size) {
  const uint64_t declared = header.index_offset + header.index_length + kFooterBytes;
  if (file_size < declared)
    return make_error(Errc::truncated, "the archive is " + std::to_string(declared - file_size) +
                                           " bytes short of the " + std::to_string(declared) + " its header declares");
  if (file_size > declared)
    return corrupt(std::to_string(file_size - declared) + " stray bytes after the archive's end at byte " +
                   std::to_string(declared));
  return {};
}

Result<Manifest> load_index(const File& file, const Header& header) {
  BREVIS_ASSIGN(const FileStat stat, file.stat());
  BREVIS_TRY(check_size(header, stat.size));
  uint8_t footer_bytes[kFooterBytes];
  BREVIS_TRY(file.read_exact(stat.size - kFooterBytes, footer_bytes));
  BREVIS_ASSIGN(const Footer footer, parse_footer(footer_bytes));
  if (footer.index_offset != header.index_offset || footer.index_length != header.index_length)
    return corrupt("header and footer disagree on where the index stands");
  ByteVector stored(header.index_length);
  BREVIS_TRY(file.read_exact(header.index_offset, stored));
  if (xxh3_64(stored) != footer.checksum)
    return corrupt("index (bytes " + std::to_string(header.index_offset) + " + " + std::to_string(header.index_length) +
                   ") fails its checksum");
  BREVIS_ASSIGN(const ByteVector index, unpack_index(stored));
  stored = ByteVector();
  if (xxh3_128(index) != header.id) return corrupt("index is not the one whose digest is the archive's id");
  BREVIS_ASSIGN(Manifest manifest, decode_manifest(index, header.original_size, header.index_offset));
  if (manifest.features() != header.features) return corrupt("the header's feature bits disagree with the programs");
  return manifest;
}

}  // namespace

Result<Header> parse_header(ByteSpan first_64_bytes) {
  ByteReader in(first_64_bytes);
  const auto magic = in.fixed<uint64_t>();
  if (!magic || *magic != kHeaderMagic) return make_error(Errc::not_found, "not a Brevis archive");
  if (first_64_bytes.size() < kHeaderBytes)
    return make_error(Errc::truncated, "the archive ends within its header of 64 bytes");
  Header header;
  BREVIS_ASSIGN(header.version, in.fixed<uint32_t>());
  BREVIS_ASSIGN(header.features, in.fixed<uint32_t>());
  BREVIS_ASSIGN(header.original_size, in.fixed<uint64_t>());
  BREVIS_ASSIGN(header.id.low, in.fixed<uint64_t>());
  BREVIS_ASSIGN(header.id.high, in.fixed<uint64_t>());
  BREVIS_ASSIGN(header.index_offset, in.fixed<uint64_t>());
  BREVIS_ASSIGN(header.index_length, in.fixed<uint64_t>());
  BREVIS_ASSIGN(const uint64_t checksum, in.fixed<uint64_t>());
  // The checksum comes first: its place is promised for every version, so a damaged version is not taken for a new one.
  if (xxh3_64(first_64_bytes.first(kHeaderBytes - 8)) != checksum) return corrupt("header fails its checksum");
  if (header.version != kVersion)
    return make_error(Errc::unsupported, "archive format version " + std::to_string(header.version) +
                                             "; this build reads version " + std::to_string(kVersion) +
                                             ": install a newer Brevis");
  if (const uint32_t unknown = header.features & ~kKnownFeatures; unknown != 0)
    return make_error(Errc::unsupported, "archive needs feature bits " + std::to_string(unknown) +
                                             " that this build does not know: install a newer Brevis");
  if (header.original_size > kMaxOriginalBytes || header.index_length > 2 * kMaxIndexBytes ||
      header.index_offset < kHeaderBytes || header.index_offset > kMaxOriginalBytes)
    return corrupt("header has impossible sizes");
  return header;
}

// A table may be bound to slots that understand it differently.
struct Reader::Loaded {
  // Number, and of the node its operator, width and parameters: all that its gate looks at.
  using TableKey = std::tuple<uint32_t, dsl::OpId, unsigned, std::vector<uint64_t>>;
  struct Kept {
    std::map<TableKey, dsl::SlotTable> tables;
    std::map<uint32_t, std::shared_ptr<const dsl::BoundProgram>> programs;  // by record
    uint64_t bytes = 0;                                                     // estimate of both
  };
  Guarded<Kept> kept;
};

namespace {

constexpr uint64_t kMaxKeptBytes = uint64_t{16} << 20;  // of loaded tables and bound programs, per archive

// What a loaded table may take: decoders spread a stored table out.
uint64_t loaded_bytes(ByteSpan stored, const dsl::SlotTable& table) {
  return 1024 + 16 * uint64_t{stored.size()} + (table.blob ? table.blob->bytes() : 0);
}

}  // namespace

struct ReaderAccess {
  static std::shared_ptr<Reader> make() { return std::shared_ptr<Reader>(new Reader()); }
  static Status fill(Reader& reader, File file) {
    reader.file_ = std::move(file);
    ByteVector first(kHeaderBytes);
    BREVIS_ASSIGN(const size_t got, reader.file_.read_some(0, first));
    first.resize(got);
    BREVIS_ASSIGN(reader.header_, parse_header(first));
    BREVIS_ASSIGN(reader.manifest_, load_index(reader.file_, reader.header_));
    reader.loaded_ = std::make_shared<Reader::Loaded>();
    return {};
  }
  static Status open(Reader& reader, File file) {
    const std::string path = file.path();
    auto filled = fill(reader, std::move(file));
    // Failures of the operating system name the path already.
    if (filled || filled.error().message().find(path) != std::string::npos) return filled;
    return std::move(filled).error().within(path);
  }
};

Result<std::shared_ptr<const Reader>> Reader::open(File file) {
  const std::shared_ptr<Reader> reader = ReaderAccess::make();
  BREVIS_TRY(ReaderAccess::open(*reader, std::move(file)));
  return std::shared_ptr<const Reader>(reader);
}

namespace {

// An archive's id fixes what it says of itself, so a base that says otherwise is no honest archive; and since depths
// fall from archive to base, no chain of them is endless.
Status check_base(const Base& base, const Reader& reader) {
  if (reader.header().id == base.id && reader.manifest().depth() == base.depth &&
      reader.manifest().original_size == base.original_size)
    return {};
  return corrupt(reader.file().path() + ": is not the base that it is taken for");
}

}  // namespace

Result<std::shared_ptr<const Reader>> Reader::open(File file, BaseFinder& finder, const Base* as_base) {
  const std::shared_ptr<Reader> reader = ReaderAccess::make();
  BREVIS_TRY(ReaderAccess::open(*reader, std::move(file)));
  if (as_base != nullptr) BREVIS_TRY(check_base(*as_base, *reader));
  for (const Base& base : reader->manifest_.bases) {
    BREVIS_ASSIGN(auto found, finder.find(base, reader->file_.path()));
    reader->bases_.push_back(std::move(found));
  }
  return std::shared_ptr<const Reader>(reader);
}

Result<std::shared_ptr<const dsl::BoundProgram>> Reader::bound(uint32_t record_number) const {
  using Kept = Loaded::Kept;
  const Record& record = manifest_.records.at(record_number);
  const auto found = loaded_->kept.with([&](const Kept& kept) {
    const auto at = kept.programs.find(record_number);
    return at == kept.programs.end() ? nullptr : at->second;
  });
  if (found) return found;

  const auto& program = manifest_.programs[record.program];
  std::vector<std::vector<dsl::SlotTable>> tables(record.bindings.size());
  uint64_t bytes = 256 + record.bindings.size() * 64;
  for (size_t slot_number = 0; slot_number < tables.size(); ++slot_number) {
    const dsl::Slot& slot = program->slots()[slot_number];
    for (const uint32_t number : record.bindings[slot_number]) {
      const dsl::Node& node = program->nodes()[slot.node];
      const Loaded::TableKey key{number, node.op, node.width, node.params};
      const auto known = loaded_->kept.with([&](const Kept& kept) -> std::optional<dsl::SlotTable> {
        const auto at = kept.tables.find(key);
        if (at == kept.tables.end()) return std::nullopt;
        return at->second;
      });
      if (known) {
        tables[slot_number].push_back(*known);
        continue;
      }
      auto loaded = dsl::load_slot(*program, slot, manifest_.tables[number]);
      if (!loaded)
        return std::move(loaded).error().within(file_.path() + ": record " + std::to_string(record_number) +
                                                ", table " + std::to_string(number));
      tables[slot_number].push_back(*loaded);
      loaded_->kept.with([&](Kept& kept) {
        if (kept.tables.emplace(key, *loaded).second) kept.bytes += loaded_bytes(manifest_.tables[number], *loaded);
      });
    }
  }
  auto bound = dsl::BoundProgram::bind(program, std::move(tables));
  if (!bound) return std::move(bound).error().within(file_.path() + ": record " + std::to_string(record_number));
  loaded_->kept.with([&](Kept& kept) {
    // Over budget everything goes: what is in use is held by its users, and loading again is cheap.
    if (kept.bytes > kMaxKeptBytes) kept = Kept();
    if (kept.programs.emplace(record_number, *bound).second) kept.bytes += bytes;
  });
  return *bound;
}

namespace {

Status check_frame(const Reader& reader, uint64_t number, ByteSpan stored) {
  const FrameEntry& frame = reader.manifest().frames[number];
  if (xxh3_64(stored) == frame.checksum) return {};
  return corrupt(reader.file().path() + ": frame " + std::to_string(number) + " (bytes " +
                 std::to_string(frame.offset) + " + " + std::to_string(frame.length) + ") fails its checksum");
}

}  // namespace

Status Reader::read_frame(uint64_t number, ByteVector& buffer) const {
  const FrameEntry& frame = manifest_.frames.at(number);
  buffer.resize(frame.length);
  BREVIS_TRY(file_.read_exact(frame.offset, buffer));
  return check_frame(*this, number, buffer);
}

Result<bool> Reader::read_frame_nowait(uint64_t number, ByteVector& buffer) const {
  const FrameEntry& frame = manifest_.frames.at(number);
  buffer.resize(frame.length);
  if (!file_.read_exact_nowait(frame.offset, buffer)) return false;
  BREVIS_TRY(check_frame(*this, number, buffer));
  return true;
}

uint64_t Reader::memory() const {
  return sizeof(Reader) + manifest_.memory() + loaded_->kept.with([](const Loaded::Kept& kept) { return kept.bytes; });
}

}  // namespace brevis::archive
