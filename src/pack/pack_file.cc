// SPDX-License-Identifier: Apache-2.0
#include "pack/pack_file.h"

#include <fcntl.h>

#include <algorithm>
#include <thread>

#include "base/checksum.h"
#include "brevis/version.h"
#include "dsl/text.h"
#include "pack/coder.h"
#include "pack/planning.h"
#include "synth/prior_file.h"

namespace brevis::pack {
namespace {

constexpr uint64_t kReadBytes = 1u << 20;

bool named_safetensors(const std::string& path) {
  constexpr std::string_view kSuffix = ".safetensors";
  return path.size() >= kSuffix.size() && path.compare(path.size() - kSuffix.size(), kSuffix.size(), kSuffix) == 0;
}

// What the verdict table says to do with a file: refused with an Error, or packed, perhaps with a warning.
Status admit(const PackOptions& options, const FileJob& job, const Verdict& verdict, std::string& warning) {
  const std::string file = "'" + job.source + "'";
  switch (verdict.kind) {
    case VerdictKind::valid: return {};
    case VerdictKind::lenient:
      if (options.strict)
        return make_error(Errc::corrupt, file + " breaks a rule of safetensors: " + verdict.reason +
                                             "; without --strict it is packed as it is");
      warning = verdict.reason;
      return {};
    case VerdictKind::truncated: {
      const std::string what =
          "file is " + std::to_string(verdict.missing_bytes) + " bytes short of what its header declares";
      if (options.allow_truncated && !options.strict) {
        warning = what;
        return {};
      }
      return make_error(Errc::truncated, file + ": " + what +
                                             "; fetch it again, or pack it as it is with "
                                             "--allow-truncated");
    }
    case VerdictKind::not_safetensors: break;
  }
  if (!named_safetensors(job.source)) return {};
  const std::string what = "is no safetensors file: it looks like " + verdict.looks_like;
  if (options.strict || !job.in_tree)
    return make_error(Errc::corrupt, file + " " + what + (verdict.reason.empty() ? "" : " (" + verdict.reason + ")"));
  warning = what;
  return {};
}

// The whole file's SHA-256, and the digest of every record's bytes as this pass saw them, so that the digest is proved
// to be of the same bytes that were coded. Runs beside the coding, on a thread of its own.
class WholeDigest {
 public:
  WholeDigest(const Source& source, const std::vector<RecordPlan>& plans) : source_(&source), hashers_(plans.size()) {
    for (size_t i = 0; i < plans.size(); ++i) {
      for (const Member& member : plans[i].members) spans_.push_back({member.span, i, nullptr});
      for (const Twin& twin : plans[i].twins) spans_.push_back({twin.span, i, &twin});
    }
    std::sort(spans_.begin(), spans_.end(),
              [](const Span& a, const Span& b) { return a.range.offset < b.range.offset; });
    thread_ = std::thread([this] {
      try {
        status_ = run();
      } catch (const std::exception& e) {
        status_ = make_error(Errc::internal, std::string("hashing the source: ") + e.what());
      }
    });
  }
  ~WholeDigest() {
    stop_.cancel();
    if (thread_.joinable()) thread_.join();
  }
  Result<Sha256> finish(const std::vector<Digest>& coded) {
    thread_.join();
    BREVIS_TRY(status_);
    for (size_t i = 0; i < coded.size(); ++i)
      if (hashers_[i].digest() != coded[i]) return source_->changed();
    return sha_.finish();
  }

 private:
  struct Span {
    Range range;
    size_t record;
    const Twin* twin;  // null: bytes of the record itself
  };

  Status run() {
    ByteVector buffer(kReadBytes);
    for (const Span& span : spans_) {
      for (uint64_t at = 0; at < span.range.length;) {
        BREVIS_TRY(stop_.check());
        const auto part = MutByteSpan(buffer).first(static_cast<size_t>(std::min(kReadBytes, span.range.length - at)));
        BREVIS_TRY(source_->read(span.range.offset + at, part));
        sha_.update(part);
        if (span.twin == nullptr) {
          hashers_[span.record].update(part);
        } else if (xxh3_128(part) != span.twin->digest) {  // twins are small: one part is all of it
          return source_->changed();
        }
        at += part.size();
      }
    }
    return {};
  }

  const Source* source_;
  std::vector<Span> spans_;
  std::vector<DigestHasher> hashers_;
  Sha256Hasher sha_;
  CancelToken stop_;
  Status status_;
  std::thread thread_;
};

// Segments in file order; empty tensors stand before whatever starts at their offset.
void add_segments(const std::vector<RecordPlan>& plans, const std::vector<Coded>& coded, const Verdict& verdict,
                  archive::Writer& writer) {
  std::vector<archive::Segment> segments;
  for (size_t i = 0; i < plans.size(); ++i) {
    uint64_t offset = 0;
    std::vector<uint64_t> offsets;
    for (const Member& member : plans[i].members) {
      segments.push_back(
          {plans[i].kind, member.span.offset, member.span.length, member.ordinal, coded[i].record, offset});
      offsets.push_back(offset);
      offset += member.span.length;
    }
    for (const Twin& twin : plans[i].twins)
      segments.push_back(
          {plans[i].kind, twin.span.offset, twin.span.length, twin.ordinal, coded[i].record, offsets[twin.member]});
  }
  for (const Member& member : empty_tensors(verdict))
    segments.push_back({archive::SegmentKind::tensor, member.span.offset, 0, member.ordinal, 0, 0});
  std::sort(segments.begin(), segments.end(), [](const archive::Segment& a, const archive::Segment& b) {
    return std::make_tuple(a.offset, a.length != 0, a.ordinal) < std::make_tuple(b.offset, b.length != 0, b.ordinal);
  });
  for (const auto& segment : segments) writer.add_segment(segment);
}

// What changed bytes and nothing else.
std::map<std::string, std::string> provenance_of(const FileContext& context, const synth::Prior* prior) {
  const PackOptions& options = *context.options;
  std::map<std::string, std::string> out;
  const auto set = [&](std::string key, std::string value) { out[std::move(key)] = std::move(value); };
  if (context.bases != nullptr && !context.bases->empty()) set("bases", to_hex(context.bases->digest()));
  set("packer", "brevis " BREVIS_VERSION);
  set("frame", std::to_string(options.frame_bytes));
  constexpr const char* kProfiles[] = {"dense", "balanced", "fast"};
  constexpr const char* kSearches[] = {"off", "uniform", "prior"};
  for (const auto& [dtype, text] : options.programs) set("program " + dtype, text);
  // The profile and the search, what is usual left out, so that no profile pays for its name.
  std::string search = kSearches[static_cast<size_t>(options.search)];
  if (options.search != PackSearch::off && options.profile != PackProfile::balanced) {
    const std::string profile = kProfiles[static_cast<size_t>(options.profile)];
    search = options.search == PackSearch::uniform ? profile : profile + " " + search;
  }
  set("search", search);
  if (options.search == PackSearch::off) return out;
  if (options.expansions) set("expansions", std::to_string(*options.expansions));
  for (const std::string& name : options.without) set("without " + name, "");
  if (prior != nullptr) set("prior", to_hex(xxh3_128(synth::write_prior(*prior))));
  return out;
}

void set_provenance(const FileContext& context, archive::Writer& writer) {
  for (const auto& [key, value] : provenance_of(context, context.prior)) writer.set_provenance(key, value);
}

Result<Source> open_source(const FileContext& context, const FileJob& job) {
  if (!job.from_archive) return Source::open(job.source);
  archive::DirectoryFinder finder(context.options->base_paths);
  return Source::open_archive(job.source, finder);
}

Result<Verdict> examine(const Source& source) {
  if (source.archive() == nullptr) return examine_file(source.path());
  const archive::Manifest& manifest = source.archive()->manifest();
  const bool prefixed = !manifest.segments.empty() && manifest.segments.front().kind == archive::SegmentKind::prefix;
  ByteVector prefix(prefixed ? manifest.segments.front().length : std::min<uint64_t>(source.size(), 1u << 16));
  BREVIS_TRY(source.read(0, prefix));
  return examine_prefix(prefix, source.size());
}

constexpr uint64_t kHoldOf = 8;    // of the memory: the stream that is coded, beside frames in flight
constexpr uint64_t kQueueOf = 16;  // and frames that wait to be encoded or written
// Of those, for each worker and once more but for one: while a program is chosen they have work, and a single one has
// its last frames in the cache.
constexpr uint64_t kQueueBytes = 2u << 20;

CoderOptions coder_options(const FileContext& context, const FileJob& job, archive::Writer& writer, Planning& planning,
                           uint64_t& reported) {
  const PackOptions& options = *context.options;
  CoderOptions out;
  out.frame_bytes = options.frame_bytes;
  out.verify = options.verify;
  // A frame in flight costs its source, encoded and decoded bytes and the scratch of both directions.
  const uint64_t fit = options.memory / (12 * std::max<uint64_t>(options.frame_bytes, kReadBytes));
  out.window = static_cast<size_t>(std::clamp<uint64_t>(fit, 1, 2 * context.pool->threads()));
  out.hold_bytes = options.memory / kHoldOf;
  out.queue_bytes = std::min(options.memory / kQueueOf, kQueueBytes * (2 * context.pool->threads() - 1));
  out.programs = options.programs;
  if (planning.searches()) out.search = planning.search();
  out.bases = context.bases;
  out.target = job.target;
  out.on_progress = [&context, &writer, &reported](uint64_t bytes) -> Status {
    if (context.options->cancelled && context.options->cancelled())
      return make_error(Errc::cancelled, "stopped on request");
    const uint64_t written = writer.bytes_written();
    const uint64_t fresh = written - reported;
    reported = written;
    return context.on_progress ? context.on_progress(bytes, fresh) : Status{};
  };
  return out;
}

SearchLog log_of(const synth::SearchTrace& trace) {
  SearchLog log{trace.expansions,
                trace.refused,
                trace.states,
                trace.pruned,
                trace.dominated,
                trace.targets,
                trace.work,
                trace.holes,
                trace.prior_hits,
                trace.exhausted,
                {}};
  for (const auto& point : trace.curve) log.curve.push_back({point.expansions, point.cost / (8 * 256)});
  return log;
}

PackedStream describe(const RecordPlan& plan, const Coded& coded, const archive::Manifest& manifest) {
  PackedStream out;
  out.name = plan.name;
  out.dtype = std::string(dtype_info(plan.dtype).name);
  out.tensors = plan.kind == archive::SegmentKind::tensor ? plan.members.size() + plan.twins.size() : 0;
  out.bytes_in = plan.bytes();
  out.bytes_out = coded.bytes;
  out.program = dsl::print(*manifest.programs[manifest.records[coded.record].program]);
  if (coded.trace) out.search = log_of(*coded.trace);
  return out;
}

// SHA-256 of `size` bytes that read(offset, part) gives.
template <class Read>
Result<std::string> sha256_of(uint64_t size, Read&& read) {
  Sha256Hasher hasher;
  ByteVector buffer(4 * kReadBytes);
  for (uint64_t at = 0; at < size;) {
    const auto part = MutByteSpan(buffer).first(static_cast<size_t>(std::min<uint64_t>(buffer.size(), size - at)));
    BREVIS_TRY(read(at, part));
    hasher.update(part);
    at += part.size();
  }
  const Sha256 digest = hasher.finish();
  return to_hex(ByteSpan(digest));
}

// Reads the new archive back from where it stands; only when all of it is there does the source go.
Status replace_source(const FileContext& context, const FileJob& job, const Source& source, const std::string& sha256) {
  archive::DirectoryFinder finder(context.options->base_paths);
  BREVIS_ASSIGN(const auto reader, archive::open_with_bases(job.target, finder));
  archive::RangeReader range(*reader);
  std::string given;
  if (reader->manifest().original_size == source.size()) {
    BREVIS_ASSIGN(given, sha256_of(source.size(), [&](uint64_t at, MutByteSpan part) {
                    return range.read({at, part.size()}, part);
                  }));
  }
  if (given != sha256)
    return make_error(Errc::internal, "'" + job.target + "' does not give back '" + job.source +
                                          "', which was kept: pack it anew with --force");
  BREVIS_TRY(source.unchanged());
  return remove_file(job.source);
}

Status pack_into(const FileContext& context, const FileJob& job, PackedFile& out) {
  const PackOptions& options = *context.options;
  BREVIS_ASSIGN(const Source source, open_source(context, job));
  out.bytes_in = source.size();
  BREVIS_ASSIGN(const Verdict verdict, examine(source));
  out.verdict = verdict.kind;
  out.tensors = verdict.tensors.size();
  if (!job.from_archive) BREVIS_TRY(admit(options, job, verdict, out.warning));
  std::vector<RecordPlan> plans = cut_into_records(verdict, source.size());
  BREVIS_TRY(fold_twins(source, plans));
  if (context.bases != nullptr) BREVIS_TRY(find_likes(*context.bases, source, verdict, plans));
  archive::Writer writer = archive::Writer::discarding();
  if (!options.dry_run) {
    BREVIS_ASSIGN(writer, archive::Writer::create(job.target, options.force || job.source == job.target));
  }
  std::optional<WholeDigest> whole;
  if (options.sha256) whole.emplace(source, plans);
  uint64_t reported = 0;
  Planning planning(options, context.prior);
  const uint64_t start = thread_cpu_ns();
  BREVIS_TRY(planning.learn(source, plans, options.frame_bytes));
  out.planning_seconds = static_cast<double>(thread_cpu_ns() - start) * 1e-9;
  if (context.learned != nullptr) context.learned->add(planning.prior());
  Coder coder(source, writer, *context.pool, coder_options(context, job, writer, planning, reported));
  std::vector<Coded> coded;
  std::vector<Digest> digests;
  BREVIS_TRY(coder.code_all(plans, [&](size_t at, Coded one) -> Status {
    const RecordPlan& plan = plans[at];
    for (const Twin& twin : plan.twins) {
      out.duplicate_tensors += 1;
      out.duplicate_bytes += twin.span.length;
      if (context.on_progress) BREVIS_TRY(context.on_progress(twin.span.length, 0));
    }
    if (one.duplicate) {
      out.duplicate_tensors += 1;
      out.duplicate_bytes += plan.bytes();
    }
    if (options.describe) out.streams.push_back(describe(plan, one, writer.manifest()));
    out.base_bytes += one.base_bytes;
    digests.push_back(one.digest);
    coded.push_back(std::move(one));
    return {};
  }));
  add_segments(plans, coded, verdict, writer);
  out.planning_seconds += coder.planning_seconds();
  out.training_seconds = coder.training_seconds();
  set_provenance(context, writer);
  if (whole) {
    BREVIS_ASSIGN(const Sha256 digest, whole->finish(digests));
    writer.set_sha256(digest);
    out.sha256 = to_hex(ByteSpan(digest));
    if (source.archive() != nullptr && source.archive()->manifest().sha256 &&
        *source.archive()->manifest().sha256 != digest)
      return make_error(Errc::corrupt, "'" + job.source + "' does not give the file that was packed (SHA-256)");
  }
  BREVIS_TRY(source.unchanged());
  const FileStat& stat = source.stat();
  BREVIS_ASSIGN(const auto sealed, writer.seal(stat.mode & 07777, stat.atime_ns, stat.mtime_ns));
  out.bytes_out = sealed.bytes;
  if (options.replace && !options.dry_run) BREVIS_TRY(replace_source(context, job, source, out.sha256));
  return context.on_progress ? context.on_progress(0, sealed.bytes - reported) : Status{};
}

}  // namespace

bool is_packed_already(const FileContext& context, const FileJob& job) {
  const auto stat = stat_at(AT_FDCWD, job.source, true);
  auto file = File::open(job.target);
  if (!stat || !file) return false;
  const auto there = file->stat();
  if (!there || there->mtime_ns != stat->mtime_ns) return false;
  const auto reader = archive::Reader::open(std::move(*file));
  if (!reader) return false;
  uint64_t size = stat->size;
  if (job.from_archive) {
    auto packed = File::open(job.source);
    if (!packed) return false;
    const auto original = archive::Reader::open(std::move(*packed));
    if (!original || (*original)->manifest().sha256 != (*reader)->manifest().sha256) return false;
    size = (*original)->manifest().original_size;
  }
  return (*reader)->manifest().original_size == size &&
         (*reader)->manifest().provenance == provenance_of(context, context.prior) &&
         (*reader)->manifest().sha256.has_value() == context.options->sha256;
}

Status remove_packed_source(const FileContext& context, const FileJob& job) {
  BREVIS_ASSIGN(const Source source, open_source(context, job));
  BREVIS_ASSIGN(const std::string sha256,
                sha256_of(source.size(), [&](uint64_t at, MutByteSpan part) { return source.read(at, part); }));
  return replace_source(context, job, source, sha256);
}

PackedFile pack_file(const FileContext& context, const FileJob& job) {
  PackedFile out;
  out.source = job.source;
  out.target = job.target;
  if (Status done = pack_into(context, job, out); !done) {
    out.action = PackAction::failed;
    out.error = std::move(done).error();
  }
  return out;
}

}  // namespace brevis::pack
