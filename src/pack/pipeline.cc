// SPDX-License-Identifier: Apache-2.0
//
// pack_files(): inventory, then file by file in a fixed order. Files are not packed side by side: one file's frames
// already fill every worker, and the order of writes stays the same whatever the number of threads.
#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <filesystem>

#include "archive/bases.h"
#include "archive/format.h"
#include "base/io.h"
#include "brevis/log.h"
#include "dsl/op.h"
#include "dsl/text.h"
#include "dsl/verify.h"
#include "pack/inventory.h"
#include "pack/overwriting.h"
#include "pack/pack_file.h"
#include "pack/planning.h"

namespace brevis {
namespace {

using pack::Directory;
using pack::Inventory;
using pack::Item;

Status check_options(const PackOptions& options) {
  if (options.frame_bytes < dsl::kMinFrameBytes || options.frame_bytes > dsl::kMaxFrameBytes)
    return make_error(Errc::invalid_argument,
                      "a frame holds 4 KiB to 1 MiB, not " + std::to_string(options.frame_bytes) + " bytes");
  for (const std::string& name : options.without)
    if (dsl::find_op(name) == nullptr)
      return make_error(Errc::invalid_argument, "'" + name + "' is no operator: docs/dsl.md lists them");
  for (const auto& [name, text] : options.programs) {
    const auto dtype = dtype_from_name(name);
    if (!dtype) return make_error(Errc::invalid_argument, "program for '" + name + "': no such dtype");
    const auto program = dsl::parse_program("u" + std::to_string(dtype_info(*dtype).word_bits()) + " = " + text, true);
    if (!program) return Error(program.error()).within("program for " + name);
    if (program->regions().empty() || program->uses_ref())
      return make_error(Errc::invalid_argument,
                        "program for " + name + ": must store its words (no ref, and more than constant and ramp)");
    if (!program->bases().empty())
      return make_error(Errc::invalid_argument,
                        "program for " + name + ": 'base' stands in differences alone, which --base and --chain make");
  }
  return {};
}

Status check_relations(const PackOptions& options) {
  const auto refuse = [](const char* why) { return make_error(Errc::invalid_argument, why); };
  if (options.shards == 0 || options.shard >= options.shards) return refuse("--shard takes I/N with I from 0 to N - 1");
  if (options.shards > 1 && (options.chain || options.dedupe))
    return refuse("--chain and --dedupe need archives that other shards make: pack without --shard");
  if (options.shards > 1 && options.replace)
    return refuse(
        "shards count the files that are there, which --replace takes away: pack with --shard first, then "
        "run once more with --resume --replace");
  if (options.chain && options.from_archives) return refuse("--chain packs files, not archives");
  if (options.replace && !options.sha256)
    return refuse("--replace compares SHA-256 before it removes anything: not with --digest none");
  if (options.replace && options.from_archives) return refuse("--replace removes files that were packed, not archives");
  return {};
}

Status copy_file(const Item& item, bool overwrite) {
  BREVIS_ASSIGN(const File file, File::open(item.source));
  BREVIS_ASSIGN(const FileStat stat, file.stat());
  BREVIS_ASSIGN(AtomicFile out, AtomicFile::create(item.target, overwrite));
  ByteVector buffer(1u << 20);
  for (;;) {
    BREVIS_ASSIGN(const size_t n, file.read_some(out.size(), buffer));
    if (n == 0) break;
    BREVIS_TRY(out.append(ByteSpan(buffer).first(n)));
  }
  BREVIS_TRY(out.set_mode_and_times(stat.mode & 07777, stat.atime_ns, stat.mtime_ns));
  return out.commit();
}

bool is_copied_already(const Item& item) {
  const auto source = stat_at(AT_FDCWD, item.source, true), there = stat_at(AT_FDCWD, item.target, false);
  return source && there && source->size == there->size && source->mtime_ns == there->mtime_ns;
}

// `again`: a link of an earlier run may stand there, and nothing else.
Status make_link(const Item& item, bool overwrite, bool again) {
  const auto there = stat_at(AT_FDCWD, item.target, false);
  if (there && (overwrite || (again && there->is_symlink()))) BREVIS_TRY(remove_file(item.target));
  return make_symlink(item.link_target, item.target);
}

// What a second run (--resume) says of a target that it finds and did not make of this.
std::optional<Error> in_the_way(const PackOptions& options, const Item& item) {
  if (!options.resume || options.force || options.dry_run || item.source == item.target ||
      !stat_at(AT_FDCWD, item.target, false))
    return std::nullopt;
  return make_error(Errc::invalid_argument,
                    "'" + item.target + "' was made of another state of '" + item.source +
                        "', or with other options, and is left as it is: --force makes it anew");
}

// Everything but packing.
PackedFile plain_item(const PackOptions& options, pack::Overwriting& overwriting, const Item& item) {
  PackedFile out;
  out.source = item.source;
  out.target = item.target;
  out.action = item.action;
  out.bytes_in = out.bytes_out = item.bytes;
  Status done;
  if (item.action == PackAction::failed) done = *item.error;
  if (item.action == PackAction::skipped) out.warning = item.note;
  if (options.resume && item.action == PackAction::copied && is_copied_already(item)) {
    out.action = PackAction::skipped;
    out.resumed = true;
    return out;
  }
  if (item.action == PackAction::copied)
    if (const auto error = in_the_way(options, item)) done = *error;
  const bool writes = item.action == PackAction::copied || item.action == PackAction::linked;
  if (done && writes && options.force && !options.dry_run) done = overwriting.check(nullptr, item);
  if (done && !options.dry_run && item.action == PackAction::copied) done = copy_file(item, options.force);
  if (done && !options.dry_run && item.action == PackAction::linked)
    done = make_link(item, options.force, options.resume);
  if (!done) {
    out.action = PackAction::failed;
    out.error = std::move(done).error();
  }
  return out;
}

// A snapshot that stands alone, then up to four that stand on the one before each.
constexpr size_t kSeries = archive::kMaxDepth + 1;

// What one source of a series became, in the order in which its files are packed.
std::vector<std::string> archives_at(const std::string& target) {
  namespace stdfs = std::filesystem;
  const auto stat = stat_at(AT_FDCWD, target, true);
  if (!stat || !stat->is_directory()) return stat ? std::vector<std::string>{target} : std::vector<std::string>();
  archive::DirectoryFinder below({target});
  std::vector<stdfs::path> paths;
  for (const auto& [id, path] : below.archives()) paths.emplace_back(path.substr(0, path.rfind('.')));
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const stdfs::path& path : paths) out.push_back(path.string() + ".brv");
  return out;
}

// What each item may be packed against, as the run goes along.
class BasesOfRun {
 public:
  BasesOfRun(const PackOptions& options, const Inventory& inventory) : options_(options), inventory_(inventory) {}

  Status open() {
    fixed_ = std::make_unique<pack::Bases>(options_.base_paths);
    for (const std::string& path : options_.bases) BREVIS_TRY(fixed_->add(path, true));
    return {};
  }
  // For the next item.
  Result<const pack::Bases*> of(const Item& item) {
    if (options_.chain && item.group != group_) {
      last_ = std::move(current_);
      current_.clear();
      group_ = item.group;
      // Sources that an earlier run replaced were not packed by this one.
      if (options_.resume && options_.replace) last_ = archives_at(inventory_.targets[group_ - 1]);
      series_.reset();
      opened_ = {};
      if (group_ % kSeries != 0) {
        series_ = std::make_unique<pack::Bases>(options_.base_paths);
        for (size_t i = 0; i < last_.size() && opened_; ++i) opened_ = series_->add(last_[i], true);
      }
    }
    BREVIS_TRY(opened_);  // for every item of the group: none is packed against a part of the bases
    const pack::Bases* bases = series_ ? series_.get() : fixed_.get();
    return bases->empty() ? nullptr : bases;
  }
  void packed(const std::string& target) {
    if (options_.chain && !options_.dry_run) current_.push_back(target);
    // Nothing is lost where an archive cannot serve others.
    if (options_.dedupe && !options_.dry_run)
      if (const Status added = (series_ ? series_ : fixed_)->add(target, false); !added)
        log(LogLevel::info, added.error().message());
  }

 private:
  const PackOptions& options_;
  const Inventory& inventory_;
  std::unique_ptr<pack::Bases> fixed_, series_;
  Status opened_;                            // of series_
  std::vector<std::string> last_, current_;  // archives of the snapshot before and of this one
  size_t group_ = 0;
};

// `made`: those that were not there before and copy a source's.
Status make_all(const Inventory& inventory, std::vector<const Directory*>& made) {
  for (const Directory& directory : inventory.directories) {
    const bool is_new = !stat_at(AT_FDCWD, directory.target, false);
    BREVIS_TRY(make_directories(directory.target));
    if (is_new && !directory.source.empty()) made.push_back(&directory);
  }
  return {};
}

PackedFile failed_item(const Item& item, Error error) {
  PackedFile out;
  out.source = item.source;
  out.target = item.target;
  out.action = PackAction::failed;
  out.error = std::move(error);
  return out;
}

PackedFile skipped_item(const pack::FileContext& context, const Item& item) {
  PackedFile out;
  out.source = item.source;
  out.target = item.target;
  out.action = PackAction::skipped;
  out.bytes_in = item.bytes;
  if (context.on_progress) static_cast<void>(context.on_progress(item.bytes, 0));
  return out;
}

PackedFile pack_item(pack::FileContext& context, BasesOfRun& run, pack::Overwriting& overwriting, const Item& item) {
  const PackOptions& options = *context.options;
  const auto bases = run.of(item);
  if (!bases) return failed_item(item, bases.error());
  context.bases = *bases;
  const pack::FileJob job{item.source, item.target, options.from_archives, item.in_tree};
  if (options.resume && pack::is_packed_already(context, job)) {
    if (options.replace && !options.dry_run)
      if (const Status removed = pack::remove_packed_source(context, job); !removed)
        return failed_item(item, removed.error());
    PackedFile out = skipped_item(context, item);
    out.resumed = true;
    return out;
  }
  if (const auto error = in_the_way(options, item)) return failed_item(item, *error);
  if (options.from_archives && item.in_tree && item.source == item.target && pack::is_base_itself(*bases, item)) {
    PackedFile out = skipped_item(context, item);
    out.warning = "a base itself: left as it is";
    return out;
  }
  if ((options.force || item.source == item.target) && !options.dry_run)
    if (const Status free = overwriting.check(*bases, item); !free) return failed_item(item, free.error());
  return pack::pack_file(context, job);
}

void add_up(PackReport& report, PackedFile file) {
  if (file.action == PackAction::packed || file.action == PackAction::copied) {
    report.bytes_in += file.bytes_in;
    report.bytes_out += file.bytes_out;
  }
  report.files.push_back(std::move(file));
}

}  // namespace

const Error* PackReport::first_error() const {
  for (const PackedFile& file : files)
    if (file.error) return &*file.error;
  return nullptr;
}

Result<PackReport> pack_files(const PackOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  BREVIS_TRY(check_options(options));
  BREVIS_TRY(check_relations(options));
  if (!options.save_prior.empty() && !options.dry_run)
    BREVIS_TRY(pack::check_save_prior(options.save_prior, options.force));
  BREVIS_ASSIGN(const Inventory inventory, pack::take_inventory(options));
  std::vector<const Directory*> made;
  if (!options.dry_run) {
    BREVIS_TRY(make_all(inventory, made));
  }
  Pool pool(options.jobs != 0 ? options.jobs : available_cores());
  PackProgress progress;
  progress.bytes_total = inventory.bytes;
  std::optional<synth::Prior> prior;
  if (!options.prior.empty()) {
    BREVIS_ASSIGN(prior, pack::load_prior(options.prior));
  }
  synth::Prior learned;
  pack::FileContext context;
  context.options = &options;
  context.pool = &pool;
  if (prior) context.prior = &*prior;
  if (!options.save_prior.empty()) context.learned = &learned;
  context.on_progress = [&](uint64_t source_bytes, uint64_t packed_bytes) -> Status {
    progress.bytes_done += source_bytes;
    progress.bytes_packed += packed_bytes;
    if (options.progress) options.progress(progress);
    return {};
  };
  BasesOfRun bases(options, inventory);
  BREVIS_TRY(bases.open());
  pack::Overwriting overwriting(options, inventory);
  PackReport report;
  for (const Item& item : inventory.items) {
    progress.file = item.source;
    if (item.action == PackAction::packed) {
      add_up(report, pack_item(context, bases, overwriting, item));
      if (report.files.back().action == PackAction::packed || report.files.back().resumed) bases.packed(item.target);
    } else {
      add_up(report, plain_item(options, overwriting, item));
      if (item.action == PackAction::copied) progress.bytes_done += item.bytes;
    }
    const auto& error = report.files.back().error;
    if (error && error->kind() == Errc::cancelled) break;
  }
  if (!options.save_prior.empty() && !options.dry_run) BREVIS_TRY(pack::save_prior(options.save_prior, learned));
  // Children before parents, and after everything in them was written. Directories that stood before keep their own.
  for (auto at = made.rbegin(); at != made.rend(); ++at)
    if (const Status done = copy_directory_attributes((*at)->source, (*at)->target); !done)
      log(LogLevel::warning, done.error().message());
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace brevis
