// SPDX-License-Identifier: Apache-2.0
//
// pack_files(): inventory, then file by file in a fixed order. Files are not packed side by side: one file's frames
// already fill every worker, and the order of writes stays the same whatever the number of threads.
#include <fcntl.h>

#include <chrono>

#include "base/io.h"
#include "brevis/log.h"
#include "dsl/op.h"
#include "dsl/text.h"
#include "dsl/verify.h"
#include "pack/inventory.h"
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
  }
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

Status make_link(const Item& item, bool overwrite) {
  if (overwrite && stat_at(AT_FDCWD, item.target, false)) BREVIS_TRY(remove_file(item.target));
  return make_symlink(item.link_target, item.target);
}

// Everything but packing.
PackedFile plain_item(const PackOptions& options, const Item& item) {
  PackedFile out;
  out.source = item.source;
  out.target = item.target;
  out.action = item.action;
  out.bytes_in = out.bytes_out = item.bytes;
  Status done;
  if (item.action == PackAction::failed) done = *item.error;
  if (item.action == PackAction::skipped) out.warning = item.note;
  if (!options.dry_run && item.action == PackAction::copied) done = copy_file(item, options.force);
  if (!options.dry_run && item.action == PackAction::linked) done = make_link(item, options.force);
  if (!done) {
    out.action = PackAction::failed;
    out.error = std::move(done).error();
  }
  return out;
}

// `made`: those that were not there before and copy a source's.
Status make_all(const Inventory& inventory, std::vector<const Directory*>& made) {
  for (const Directory& directory : inventory.directories) {
    const bool is_new = !stat_at(AT_FDCWD, directory.target, false);
    BREVIS_TRY(make_directories(directory.target));
    if (is_new && !directory.source.empty()) made.push_back(&directory);
  }
  return {};
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
  PackReport report;
  for (const Item& item : inventory.items) {
    progress.file = item.source;
    if (item.action == PackAction::packed) {
      add_up(report, pack::pack_file(context, {item.source, item.target, item.in_tree}));
    } else {
      add_up(report, plain_item(options, item));
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
