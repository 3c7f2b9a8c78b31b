// SPDX-License-Identifier: Apache-2.0
//
// brevis/c.h over the C++ face: nothing but the face is used. Every function is a door, so none lets an exception out.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <system_error>
#include <thread>

#include "brevis/archive.h"
#include "brevis/c.h"
#include "brevis/check.h"
#include "brevis/pack.h"
#include "brevis/version.h"

using namespace brevis;

struct brevis_archive {
  std::shared_ptr<const Archive> archive;
  Verdict verdict;
  std::vector<ArchiveSpan> tensors;
  std::map<std::string_view, size_t> by_name;
  std::string sha256;
};

namespace {

struct Failure {
  std::string message;
  int os_errno = 0;
};
thread_local Failure last_failure;

int status_of(Errc kind) {
  switch (kind) {
    case Errc::corrupt: return BREVIS_E_CORRUPT;
    case Errc::truncated: return BREVIS_E_TRUNCATED;
    case Errc::unsupported: return BREVIS_E_UNSUPPORTED;
    case Errc::invalid_argument: return BREVIS_E_ARGUMENT;
    case Errc::not_found: return BREVIS_E_NOT_FOUND;
    case Errc::io: return BREVIS_E_IO;
    case Errc::no_space: return BREVIS_E_NO_SPACE;
    case Errc::busy: return BREVIS_E_BUSY;
    case Errc::permission: return BREVIS_E_PERMISSION;
    case Errc::unavailable: return BREVIS_E_UNAVAILABLE;
    case Errc::changed: return BREVIS_E_CHANGED;
    case Errc::cancelled: return BREVIS_E_CANCELLED;
    case Errc::internal: return BREVIS_E_INTERNAL;
  }
  return BREVIS_E_INTERNAL;
}

int fail(const Error& error) {
  last_failure = {error.message(), error.os_errno()};
  return status_of(error.kind());
}

// Runs `body`, which gives a Status, as the inside of a C function.
template <class Body>
int door(Body body) noexcept {
  try {
    const Status done = body();
    return done ? BREVIS_OK : fail(done.error());
  } catch (const std::bad_alloc&) {
    last_failure = {};  // no text: that would want memory
    return BREVIS_E_NO_SPACE;
  } catch (const std::exception& e) {
    try {
      last_failure = {e.what(), 0};
    } catch (...) {
      last_failure = {};
    }
    return BREVIS_E_INTERNAL;
  }
}

Error bad_call(const char* what) { return make_error(Errc::invalid_argument, what); }

// Fills the part of *out that the caller knows; its `size` stays the caller's.
template <class Struct>
Status hand_out(Struct filled, Struct* out) {
  if (out == nullptr || out->size < sizeof(size_t)) return bad_call("a struct whose size is not set");
  filled.size = out->size;
  std::memcpy(out, &filled, std::min(out->size, sizeof filled));
  return {};
}

// Reads of this size and more are shared among threads; each piece decodes at most two frames that a neighbour
// decodes, too.
constexpr uint64_t kPiece = uint64_t{8} << 20;

Status read_pieces(const Archive& archive, Range range, uint8_t* out, unsigned threads) {
  const uint64_t pieces = (range.length + kPiece - 1) / kPiece;
  if (threads == 0) threads = std::max(1u, std::thread::hardware_concurrency());
  threads = static_cast<unsigned>(std::min<uint64_t>(threads, pieces));
  if (threads <= 1) return archive.read(range, {out, range.length});
  std::atomic<uint64_t> next{0};
  std::vector<Status> results(threads);
  const auto work = [&](unsigned self) noexcept {
    try {
      for (uint64_t i = next++; i < pieces && results[self]; i = next++) {
        const Range piece{range.offset + i * kPiece, std::min(kPiece, range.length - i * kPiece)};
        results[self] = archive.read(piece, {out + i * kPiece, piece.length});
      }
    } catch (...) {
      results[self] = make_error(Errc::internal, "out of memory");
    }
    if (!results[self]) next = pieces;  // the others need not go on
  };
  std::vector<std::jthread> others;
  try {
    for (unsigned i = 1; i < threads; ++i) others.emplace_back(work, i);
  } catch (const std::system_error&) {  // fewer, then
  }
  work(0);
  others.clear();
  for (Status& result : results) BREVIS_TRY(std::move(result));
  return {};
}

Status fill_tensor(const ArchiveSpan& span, brevis_tensor* out) {
  brevis_tensor tensor = {};
  tensor.name = span.tensor.name.c_str();
  tensor.dtype = span.tensor.dtype_name.c_str();
  tensor.shape = span.tensor.shape.data();
  tensor.dimensions = span.tensor.shape.size();
  tensor.offset = span.span.offset;
  tensor.bytes = span.span.length;
  tensor.packed_bytes = span.packed_bytes;
  tensor.duplicate = span.duplicate;
  return hand_out(tensor, out);
}

}  // namespace

const char* brevis_version(void) { return BREVIS_VERSION; }
const char* brevis_message(void) { return last_failure.message.c_str(); }
int brevis_errno(void) { return last_failure.os_errno; }

int brevis_is_archive(const char* path, int* is_archive) {
  return door([&]() -> Status {
    if (path == nullptr || is_archive == nullptr) return bad_call("brevis_is_archive: a null argument");
    BREVIS_ASSIGN(const auto summary, peek_archive(path));
    *is_archive = summary.has_value();
    return {};
  });
}

int brevis_open(const char* path, brevis_archive** archive) {
  return door([&]() -> Status {
    if (path == nullptr || archive == nullptr) return bad_call("brevis_open: a null argument");
    *archive = nullptr;
    auto opened = std::make_unique<brevis_archive>();
    BREVIS_ASSIGN(opened->archive, Archive::open(path));
    BREVIS_ASSIGN(opened->verdict, opened->archive->verdict());
    BREVIS_ASSIGN(auto spans, opened->archive->spans());
    for (ArchiveSpan& span : spans)
      if (span.kind == SpanKind::tensor) opened->tensors.push_back(std::move(span));
    for (size_t i = 0; i < opened->tensors.size(); ++i) opened->by_name.emplace(opened->tensors[i].tensor.name, i);
    if (const auto& sha256 = opened->archive->info().sha256) opened->sha256 = to_hex(ByteSpan(*sha256));
    *archive = opened.release();
    return {};
  });
}

void brevis_close(brevis_archive* archive) { delete archive; }

int brevis_get_info(const brevis_archive* archive, brevis_info* info) {
  return door([&]() -> Status {
    if (archive == nullptr) return bad_call("brevis_get_info: no archive");
    const ArchiveInfo& known = archive->archive->info();
    brevis_info filled = {};
    filled.format_version = known.version;
    filled.is_safetensors =
        archive->verdict.kind == VerdictKind::valid || archive->verdict.kind == VerdictKind::lenient;
    filled.original_bytes = known.original_size;
    filled.archive_bytes = known.archive_size;
    filled.sha256 = archive->sha256.empty() ? nullptr : archive->sha256.c_str();
    filled.tensors = archive->tensors.size();
    filled.metadata_entries = archive->verdict.metadata.size();
    return hand_out(filled, info);
  });
}

int brevis_get_tensor(const brevis_archive* archive, size_t index, brevis_tensor* tensor) {
  return door([&]() -> Status {
    if (archive == nullptr) return bad_call("brevis_get_tensor: no archive");
    if (index >= archive->tensors.size())
      return make_error(Errc::not_found, archive->archive->path() + ": no tensor " + std::to_string(index));
    return fill_tensor(archive->tensors[index], tensor);
  });
}

int brevis_find_tensor(const brevis_archive* archive, const char* name, brevis_tensor* tensor) {
  return door([&]() -> Status {
    if (archive == nullptr || name == nullptr) return bad_call("brevis_find_tensor: a null argument");
    const auto found = archive->by_name.find(name);
    if (found == archive->by_name.end())
      return make_error(Errc::not_found, archive->archive->path() + ": no tensor '" + name + "'");
    return fill_tensor(archive->tensors[found->second], tensor);
  });
}

int brevis_get_metadata(const brevis_archive* archive, size_t index, const char** key, const char** value) {
  return door([&]() -> Status {
    if (archive == nullptr || key == nullptr || value == nullptr)
      return bad_call("brevis_get_metadata: a null argument");
    const auto& entries = archive->verdict.metadata;
    if (index >= entries.size())
      return make_error(Errc::not_found, archive->archive->path() + ": no metadata entry " + std::to_string(index));
    *key = entries[index].first.c_str();
    *value = entries[index].second.c_str();
    return {};
  });
}

int brevis_read(const brevis_archive* archive, uint64_t offset, void* buffer, size_t length, unsigned threads) {
  return door([&]() -> Status {
    if (archive == nullptr || (buffer == nullptr && length != 0)) return bad_call("brevis_read: a null argument");
    const uint64_t size = archive->archive->info().original_size;
    if (offset > size || length > size - offset)
      return make_error(Errc::invalid_argument, archive->archive->path() + ": " + std::to_string(length) +
                                                    " bytes from " + std::to_string(offset) + " on end beyond its " +
                                                    std::to_string(size));
    if (length == 0) return {};
    return read_pieces(*archive->archive, {offset, length}, static_cast<uint8_t*>(buffer), threads);
  });
}

int brevis_pack(const char* source, const char* target, const brevis_pack_options* options,
                brevis_pack_result* result) {
  return door([&]() -> Status {
    if (source == nullptr) return bad_call("brevis_pack: no source");
    brevis_pack_options wanted = {};
    if (options != nullptr) {
      if (options->size < sizeof(size_t)) return bad_call("brevis_pack: options whose size is not set");
      std::memcpy(&wanted, options, std::min(options->size, sizeof wanted));
    }
    PackOptions how;
    how.sources = {source};
    if (target != nullptr) how.target = target;
    how.force = wanted.force != 0;
    how.strict = wanted.strict != 0;
    how.sha256 = wanted.no_sha256 == 0;
    how.jobs = wanted.jobs;
    if (wanted.memory != 0) how.memory = wanted.memory;
    BREVIS_ASSIGN(const PackReport report, pack_files(how));
    if (const Error* error = report.first_error()) return Error(*error);
    if (result == nullptr) return {};
    brevis_pack_result filled = {};
    filled.files = report.files.size();
    filled.bytes_in = report.bytes_in;
    filled.bytes_out = report.bytes_out;
    return hand_out(filled, result);
  });
}

int brevis_check(const char* path, brevis_finding found, void* context) {
  return door([&]() -> Status {
    if (path == nullptr) return bad_call("brevis_check: no path");
    CheckOptions how;
    how.paths = {path};
    BREVIS_ASSIGN(const CheckReport report, check(how));
    const Finding *damage = nullptr, *unread = nullptr;
    for (const Finding& finding : report.findings) {
      if (damage == nullptr && finding.severity == Severity::damage) damage = &finding;
      if (unread == nullptr && finding.severity == Severity::unread) unread = &finding;
      if (found != nullptr)
        found(context, static_cast<int>(finding.severity), finding.file.c_str(), finding.tensor.c_str(),
              finding.message.c_str());
    }
    if (damage != nullptr) return make_error(Errc::corrupt, damage->file + ": " + damage->message);
    if (unread != nullptr) return make_error(Errc::permission, unread->file + ": " + unread->message);
    return {};
  });
}
