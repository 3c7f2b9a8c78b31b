// SPDX-License-Identifier: Apache-2.0
//
// A round gives every entrant its turn: memcpy, zstd and each kernel level, decoding and then encoding, each on one
// core and on all. Ratios are taken within a round, between neighbours in time. memcpy and zstd go over the file as a
// whole; ours do so too, in the archive's order, as readers of files meet frames, and then group by group. A dtype is
// the sum of its groups.
//
// What is timed: decoding is the check of the frames' stored bytes and decode_frames into warm memory; encoding is
// encode_frame with the archive's program and tables, and the checksum of its result; both as often in a row as makes
// a few milliseconds, so that small files can be timed at all. Before the first round everything runs once untimed and
// is held against the original bytes.
#include "brevis/bench.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <fstream>
#include <functional>
#include <numeric>

#include "base/checksum.h"
#include "base/threads.h"
#include "bench/subject.h"
#include "bench/zstd_peer.h"
#include "bits/kernels.h"
#include "brevis/log.h"
#include "dsl/encode.h"

namespace brevis::bench {
namespace {

constexpr double kShortestPass = 0.005;  // seconds
constexpr size_t kMostRepeats = 10000;
constexpr int kZstdLevels[] = {3, 9};
// Frames decoded at once, as readers of whole files do it, and their bytes at most: between check and decoding they are
// to stay in the second-level cache.
constexpr size_t kMostAtOnce = 16;
constexpr size_t kBytesAtOnce = size_t{1} << 19;

// Seconds a round, of so many bytes.
struct Series {
  uint64_t bytes = 0;
  std::vector<double> one, all;
  size_t repeats = 0;  // in a row; 0: not run yet

  void add(const Series& other) {
    bytes += other.bytes;
    one.resize(std::max(one.size(), other.one.size()));
    all.resize(std::max(all.size(), other.all.size()));
    for (size_t i = 0; i < other.one.size(); ++i) one[i] += other.one[i];
    for (size_t i = 0; i < other.all.size(); ++i) all[i] += other.all[i];
  }
};

double rate(uint64_t bytes, double seconds) { return seconds > 0 ? static_cast<double>(bytes) / seconds : 0; }

double ratio(uint64_t bytes, const std::vector<double>& seconds, uint64_t peer_bytes, const std::vector<double>& peer) {
  std::vector<double> ratios;
  for (size_t i = 0; i < std::min(seconds.size(), peer.size()); ++i)
    if (const double base = rate(peer_bytes, peer[i]); base > 0) ratios.push_back(rate(bytes, seconds[i]) / base);
  return median(std::move(ratios));
}

BenchRate rate_of(const Series& series, const Series& copy, const Series& zstd3) {
  BenchRate out;
  out.one_core = {rate(series.bytes, median(series.one)) / 1e9, ratio(series.bytes, series.one, copy.bytes, copy.one),
                  ratio(series.bytes, series.one, zstd3.bytes, zstd3.one)};
  out.all_cores = {rate(series.bytes, median(series.all)) / 1e9, ratio(series.bytes, series.all, copy.bytes, copy.all),
                   ratio(series.bytes, series.all, zstd3.bytes, zstd3.all)};
  return out;
}

struct LevelSeries {
  const bits::Kernels* kernels;
  Series decode, encode;
  std::vector<Series> decode_groups, encode_groups;
};
struct PeerSeries {
  ZstdPeer peer;
  Series decode, encode;
};

// Puts a level to use; the one before is back when the scope ends.
class UseLevel {
 public:
  explicit UseLevel(const bits::Kernels& kernels) : before_(bits::kernels()) { bits::use_kernels(kernels); }
  ~UseLevel() { bits::use_kernels(before_); }
  UseLevel(const UseLevel&) = delete;
  UseLevel& operator=(const UseLevel&) = delete;

 private:
  const bits::Kernels& before_;
};

// What this process may use, BREVIS_CPU being obeyed: of each name the best.
std::vector<const bits::Kernels*> levels() {
  std::vector<const bits::Kernels*> out;
  for (const bits::Kernels& kernels : bits::all_kernels()) {
    if (!out.empty() && out.back()->name == kernels.name) out.pop_back();
    out.push_back(&kernels);
    if (&kernels == &bits::kernels()) break;
  }
  return out;
}

class FileBench {
 public:
  FileBench(const BenchOptions& options, Crew& crew, const Subject& subject)
      : options_(options),
        crew_(crew),
        subject_(subject),
        out_(std::max(subject.words.size(), subject.original.size())),
        scratch_(crew.size()) {
    for (const int level : kZstdLevels)
      peers_.push_back({ZstdPeer(level, subject.original.span(), crew.size()), {}, {}});
    by_group_.resize(subject.frames.size());
    std::iota(by_group_.begin(), by_group_.end(), size_t{0});
    by_place_ = by_group_;
    std::sort(by_place_.begin(), by_place_.end(), [&](size_t a, size_t b) {
      return std::less<>()(subject.frames[a].stored.data(), subject.frames[b].stored.data());
    });
    add_batches(by_place_, whole_batches_);
    for (const SubjectGroup& group : subject.groups) {
      first_frame_.push_back(group.first_frame);
      first_batch_.push_back(batches_.size());
      add_batches(std::span(by_group_).subspan(group.first_frame, group.frames), batches_);
    }
    first_frame_.push_back(subject.frames.size());
    first_batch_.push_back(batches_.size());
    const std::vector<Series> each(subject.groups.size());
    for (const bits::Kernels* kernels : levels()) levels_.push_back({kernels, {}, {}, each, each});
  }

  Status run() {
    BREVIS_TRY(verify());
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    BREVIS_TRY(round());  // warms caches and settles the repeats; not counted
    while (rounds_ < std::max(options_.rounds, 1u) || seconds() < options_.seconds) {
      BREVIS_TRY(round());
      ++rounds_;
      log(LogLevel::info, "round " + std::to_string(rounds_) + " done");
    }
    return {};
  }

  void report(BenchFile& file) const {
    file.rounds = rounds_;
    const Series &decode3 = peers_[0].decode, &encode3 = peers_[0].encode;
    file.coded_bytes = copy_.bytes;
    file.memcpy_rate = rate_of(copy_, copy_, decode3);
    for (const PeerSeries& peer : peers_)
      file.ways.push_back({"zstd -" + std::to_string(peer.peer.level()), peer.peer.packed_bytes(),
                           rate_of(peer.decode, copy_, decode3), rate_of(peer.encode, copy_, encode3)});
    for (const LevelSeries& level : levels_)
      file.ways.push_back({std::string(level.kernels->name), file.packed_bytes, rate_of(level.decode, copy_, decode3),
                           rate_of(level.encode, copy_, encode3)});
    const std::vector<SubjectGroup>& groups = subject_.groups;
    for (size_t i = 0; i < groups.size(); ++i) {
      file.groups.push_back(group_of({i}));
      file.groups.back().program = groups[i].program;
    }
    for (size_t i = 0; i < groups.size();) {
      std::vector<size_t> same;
      const std::string& dtype = groups[i].dtype;
      for (; i < groups.size() && groups[i].dtype == dtype; ++i) same.push_back(i);
      file.dtypes.push_back(group_of(same));
    }
  }

 private:
  using Batch = std::span<const size_t>;  // numbers of frames that are decoded at once
  struct Scratch {                        // of a worker
    Arena arena;
    std::vector<dsl::FrameTask> tasks;
    ByteVector encoded;
  };

  void add_batches(std::span<const size_t> frames, std::vector<Batch>& out) const {
    while (!frames.empty()) {
      size_t count = 0, bytes = 0;
      do bytes += subject_.frames[frames[count++]].bytes;
      while (count < std::min(frames.size(), kMostAtOnce) &&
             bytes + subject_.frames[frames[count]].bytes <= kBytesAtOnce);
      out.push_back(frames.first(count));
      frames = frames.subspan(count);
    }
  }

  // --- the tasks
  Status decode(unsigned worker, const Batch& batch) {
    std::vector<dsl::FrameTask>& tasks = scratch_[worker].tasks;
    tasks.clear();
    for (const size_t number : batch) {
      const FrameJob& job = subject_.frames[number];
      if (xxh3_64(job.stored) != job.checksum) return make_error(Errc::internal, "a frame's bytes changed in memory");
      tasks.push_back({job.bound, job.region, job.first_word, job.stored, out_.span().subspan(job.at, job.bytes)});
    }
    dsl::decode_frames(tasks, scratch_[worker].arena);
    for (dsl::FrameTask& task : tasks) BREVIS_TRY(std::move(task.status));
    return {};
  }
  Status encode(unsigned worker, const FrameJob& job) {
    ByteVector& encoded = scratch_[worker].encoded;
    encoded.clear();
    BREVIS_ASSIGN(const bool fits, dsl::encode_frame(*job.bound, job.region, job.first_word, job.target, encoded));
    if (!fits) return make_error(Errc::internal, "a frame's program does not express the frame");
    // The result is kept where the compiler cannot see that nobody wants it.
    checksum_sink_.store(xxh3_64(encoded), std::memory_order_relaxed);
    return {};
  }
  Status copy(const FrameJob& job) {
    std::memcpy(out_.data() + job.at, subject_.words.data() + job.at, job.bytes);
    return {};
  }

  // --- once, untimed: every way gives the right bytes
  Status verify() {
    const auto whole = [&](const char* what, const std::string& name, const WarmBuffer& want) -> Status {
      if (std::memcmp(out_.data(), want.data(), want.size()) == 0) return {};
      return make_error(Errc::internal, name + what + " other bytes than it should; please report this");
    };
    for (PeerSeries& peer : peers_) {
      BREVIS_TRY(run_all(peer.peer.pieces(), [&](unsigned w, size_t i) { return peer.peer.compress(w, i); }));
      clear();
      BREVIS_TRY(
          run_all(peer.peer.pieces(), [&](unsigned w, size_t i) { return peer.peer.decompress(w, i, out_.span()); }));
      BREVIS_TRY(whole(" decodes", "zstd", subject_.original));
    }
    for (const LevelSeries& level : levels_) {
      const UseLevel use(*level.kernels);
      const std::string name(level.kernels->name);
      clear();
      BREVIS_TRY(run_all(whole_batches_.size(), [&](unsigned w, size_t i) { return decode(w, whole_batches_[i]); }));
      BREVIS_TRY(whole(" decodes", name, subject_.words));
      clear();
      BREVIS_TRY(run_all(subject_.frames.size(), [&](unsigned w, size_t i) -> Status {
        const FrameJob& job = subject_.frames[i];
        BREVIS_TRY(encode(w, job));
        return dsl::decode_frame(*job.bound, job.region, job.first_word, scratch_[w].encoded,
                                 out_.span().subspan(job.at, job.bytes), scratch_[w].arena);
      }));
      BREVIS_TRY(whole(" encodes", name, subject_.words));
    }
    return {};
  }
  // Padding between frames is zero in both.
  void clear() { std::memset(out_.data(), 0, out_.size()); }
  Status run_all(size_t count, const Task& task) {
    BREVIS_TRY(check_cancelled());
    BREVIS_ASSIGN([[maybe_unused]] const double seconds, crew_.on_all(task, count, 1));
    return {};
  }

  Status check_cancelled() const {
    if (options_.cancelled && options_.cancelled()) return make_error(Errc::cancelled, "stopped on request");
    return {};
  }

  // --- the rounds
  Status measure(Series& series, uint64_t bytes, size_t count, const Task& task) {
    BREVIS_TRY(check_cancelled());
    const bool first = series.repeats == 0;
    if (first) {
      series.bytes = bytes;
      BREVIS_ASSIGN(const double once, crew_.on_one(task, count, 1));
      const double repeats = once > 0 ? kShortestPass / once : kMostRepeats;
      series.repeats = static_cast<size_t>(std::clamp<double>(repeats + 1, 1, kMostRepeats));
    }
    BREVIS_ASSIGN(const double one, crew_.on_one(task, count, series.repeats));
    BREVIS_ASSIGN(const double all, crew_.on_all(task, count, series.repeats));
    if (first) return {};
    series.one.push_back(one);
    series.all.push_back(all);
    return {};
  }

  // Of frames first .. end - 1.
  uint64_t bytes_of(size_t first, size_t end) const {
    uint64_t bytes = 0;
    for (size_t i = first; i < end; ++i) bytes += subject_.frames[i].bytes;
    return bytes;
  }
  // Jobs first .. first + count - 1 of all, which are so many bytes.
  Status measure_jobs(Series& series, uint64_t bytes, size_t first, size_t count, const Task& task) {
    return measure(series, bytes, count, [&](unsigned worker, size_t job) { return task(worker, first + job); });
  }

  // As a whole, then by group; the only group is the whole. `starts`: the first job of each group, and the end.
  Status measure_level(Series& whole, size_t whole_jobs, const Task& whole_task, std::vector<Series>& groups,
                       const std::vector<size_t>& starts, const Task& task) {
    BREVIS_TRY(measure_jobs(whole, bytes_of(0, subject_.frames.size()), 0, whole_jobs, whole_task));
    if (groups.size() == 1) {
      groups[0] = whole;
      return {};
    }
    for (size_t i = 0; i < groups.size(); ++i)
      BREVIS_TRY(measure_jobs(groups[i], bytes_of(first_frame_[i], first_frame_[i + 1]), starts[i],
                              starts[i + 1] - starts[i], task));
    return {};
  }

  Status round() {
    uint64_t bytes = 0;
    for (const FrameJob& job : subject_.frames) bytes += job.bytes;
    BREVIS_TRY(
        measure(copy_, bytes, subject_.frames.size(), [&](unsigned, size_t i) { return copy(subject_.frames[i]); }));
    for (PeerSeries& peer : peers_)
      BREVIS_TRY(measure(peer.decode, subject_.original.size(), peer.peer.pieces(),
                         [&](unsigned worker, size_t i) { return peer.peer.decompress(worker, i, out_.span()); }));
    for (LevelSeries& level : levels_) {
      const UseLevel use(*level.kernels);
      BREVIS_TRY(measure_level(
          level.decode, whole_batches_.size(),
          [&](unsigned worker, size_t i) { return decode(worker, whole_batches_[i]); }, level.decode_groups,
          first_batch_, [&](unsigned worker, size_t i) { return decode(worker, batches_[i]); }));
    }
    for (PeerSeries& peer : peers_)
      BREVIS_TRY(measure(peer.encode, subject_.original.size(), peer.peer.pieces(),
                         [&](unsigned worker, size_t i) { return peer.peer.compress(worker, i); }));
    for (LevelSeries& level : levels_) {
      const UseLevel use(*level.kernels);
      const auto encode_one = [&](unsigned worker, size_t i) { return encode(worker, subject_.frames[i]); };
      BREVIS_TRY(measure_level(level.encode, subject_.frames.size(), encode_one, level.encode_groups, first_frame_,
                               encode_one));
    }
    return {};
  }

  // Some groups of one dtype, or of all.
  BenchGroup group_of(const std::vector<size_t>& members) const {
    BenchGroup out;
    const auto sum = [&](const std::vector<Series>& by_group) {
      Series series;
      for (const size_t i : members) series.add(by_group[i]);
      return series;
    };
    for (const size_t i : members) {
      const SubjectGroup& group = subject_.groups[i];
      out.dtype = group.dtype;
      out.streams += group.streams;
      out.frames += group.frames;
      out.bytes += group.bytes;
      out.packed_bytes += group.packed_bytes;
    }
    for (const LevelSeries& level : levels_)
      out.ways.push_back({std::string(level.kernels->name), out.packed_bytes,
                          rate_of(sum(level.decode_groups), copy_, peers_[0].decode),
                          rate_of(sum(level.encode_groups), copy_, peers_[0].encode)});
    return out;
  }

  const BenchOptions& options_;
  Crew& crew_;
  const Subject& subject_;
  WarmBuffer out_;
  std::vector<Scratch> scratch_;
  std::vector<size_t> by_place_, by_group_;        // numbers of all frames, as they lie in the archive and by group
  std::vector<Batch> whole_batches_, batches_;     // of either
  std::vector<size_t> first_frame_, first_batch_;  // by group, and the end
  std::atomic<uint64_t> checksum_sink_{0};
  Series copy_;
  std::vector<PeerSeries> peers_;
  std::vector<LevelSeries> levels_;
  unsigned rounds_ = 0;
};

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const size_t colon = line.find(": ");
    if (line.rfind("model name", 0) == 0 && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

Result<BenchFile> bench_file(const BenchOptions& options, const std::string& path) {
  BREVIS_ASSIGN(const Subject subject, Subject::load(path, options.cancelled));
  BenchFile file;
  file.path = path;
  file.was_archive = subject.was_archive;
  file.bytes = subject.original.size();
  file.packed_bytes = subject.packed_bytes;
  Crew crew;
  FileBench work(options, crew, subject);
  BREVIS_TRY(work.run());
  work.report(file);
  return file;
}

}  // namespace
}  // namespace brevis::bench

namespace brevis {

Result<BenchReport> run_bench(const BenchOptions& options) {
  BenchReport report;
  report.cpu = bench::cpu_name();
  report.cores = available_cores();
  for (const bits::Kernels* kernels : bench::levels()) report.levels.emplace_back(kernels->name);
  report.zstd_version = bench::ZstdPeer::version();
  for (const std::string& path : options.files) {
    auto file = bench::bench_file(options, path);
    if (!file) {
      Error error = std::move(file).error();
      return error.kind() == Errc::cancelled ? error : Error(std::move(error).within("'" + path + "'"));
    }
    report.files.push_back(std::move(*file));
  }
  return report;
}

}  // namespace brevis
