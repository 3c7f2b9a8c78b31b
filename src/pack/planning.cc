// SPDX-License-Identifier: Apache-2.0
#include "pack/planning.h"

#include <fcntl.h>

#include <algorithm>
#include <bit>

#include "base/checksum.h"
#include "synth/improve.h"
#include "synth/prior_file.h"

namespace brevis::pack {
namespace {

synth::Effort effort_for(const PackOptions& options) {
  synth::Effort effort = synth::effort_of(static_cast<synth::Profile>(options.profile));
  if (options.search == PackSearch::off) effort.limits.expansions = 0;
  if (options.expansions && options.search != PackSearch::off) {
    effort.limits.expansions = *options.expansions;
    effort.limits.patience = UINT64_MAX;
    effort.first_work = std::max(effort.first_work, *options.expansions << 16);  // asked for by name: let it have them
  }
  return effort;
}

// Streams of one kind: the largest of them stands for all.
struct Kind {
  uint64_t bytes = 0;
  const RecordPlan* plan = nullptr;
};

std::vector<Kind> kinds_of(const std::vector<RecordPlan>& plans) {
  std::map<std::tuple<Dtype, std::string, unsigned>, Kind> kinds;
  for (const RecordPlan& plan : plans) {
    if (plan.kind != archive::SegmentKind::tensor) continue;
    Kind& kind = kinds[{plan.dtype, plan.role, static_cast<unsigned>(std::bit_width(plan.bytes()))}];
    kind.bytes += plan.bytes();
    if (kind.plan == nullptr || plan.bytes() > kind.plan->bytes()) kind.plan = &plan;
  }
  std::vector<Kind> out;
  for (auto& [key, kind] : kinds) out.push_back(kind);
  std::stable_sort(out.begin(), out.end(), [](const Kind& a, const Kind& b) { return a.bytes > b.bytes; });
  return out;
}

}  // namespace

Planning::Planning(const PackOptions& options, const synth::Prior* given)
    : grammar_(options.without), effort_(effort_for(options)), budget_(effort_) {
  if (given != nullptr && options.search == PackSearch::prior) prior_ = *given;
  learns_ = given == nullptr && (options.search == PackSearch::prior || !options.save_prior.empty()) && searches();
}

Status Planning::learn(const Source& source, const std::vector<RecordPlan>& plans, uint64_t frame_bytes) {
  if (!learns_) return {};
  // An advance on what the streams will bring along.
  synth::Effort effort = effort_;
  for (const RecordPlan& plan : plans) effort.first_work += plan.bytes() / 1024 * effort.work_per_byte_256;
  synth::Prior learned;
  size_t left = effort.prior_streams;
  for (const Kind& kind : kinds_of(plans)) {
    if (left == 0) break;
    if (kind.plan->bytes() < effort.least_bytes) continue;
    --left;
    synth::Budget budget(effort);
    synth::SearchOptions options{&grammar_, &prior_, &effort, &budget};
    const SpanStream bytes(source, [&] {
      std::vector<Range> spans;
      for (const Member& member : kind.plan->members) spans.push_back(member.span);
      return spans;
    }());
    const unsigned width = kind.plan->width();
    synth::Stream stream;
    stream.dtype = kind.plan->dtype;
    stream.width = width;
    stream.words = bytes.bytes() / (width / 8);
    stream.shape = kind.plan->shape;
    stream.read = [&](uint64_t first, bits::Words out) { return bytes.read(first * (width / 8), out.byte_span()); };
    BREVIS_TRY(synth::learn(stream, std::max<uint64_t>(1, frame_bytes / (width / 8)), options, learned));
  }
  prior_ = std::move(learned);
  return {};
}

Result<synth::Prior> load_prior(const std::string& path) {
  BREVIS_ASSIGN(const ByteVector bytes, read_whole_file(path, synth::kMaxPriorBytes));
  auto prior = synth::read_prior(bytes);
  if (!prior) return Error(prior.error()).within("'" + path + "'");
  return prior;
}

Status check_save_prior(const std::string& path, bool overwrite) {
  if (overwrite || !stat_at(AT_FDCWD, path, true) || load_prior(path)) return {};
  return make_error(Errc::invalid_argument,
                    "'" + path + "' is there and no prior of this program: name another file, or --force");
}

Status save_prior(const std::string& path, const synth::Prior& prior) {
  BREVIS_ASSIGN(AtomicFile out, AtomicFile::create(path, true));
  BREVIS_TRY(out.append(synth::write_prior(prior)));
  return out.commit();
}

}  // namespace brevis::pack
