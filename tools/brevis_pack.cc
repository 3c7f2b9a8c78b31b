// SPDX-License-Identifier: Apache-2.0
//
// brevis-pack: files and model directories into archives. The command line of pack_files(); nothing here touches a
// file.
#include <malloc.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>

#include "brevis/pack.h"
#include "command.h"
#include "json_output.h"
#include "output.h"
#include "signals.h"
#include "sizes.h"

namespace brevis::tools {
namespace {

constexpr const char* kActions[] = {"packed", "copied", "linked", "skipped", "failed"};

void add_programs(CommandLine& line, PackOptions& options) {
  line.app()
      .add_option_function<std::vector<std::string>>(
          "--program",
          [&options](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) {
              const auto trimmed = [](std::string part) {
                part.erase(0, part.find_first_not_of(" \t\n"));
                part.erase(part.find_last_not_of(" \t\n") + 1);
                return part;
              };
              const size_t equals = text.find('=');
              const std::string dtype = trimmed(text.substr(0, equals));
              const std::string program = equals == std::string::npos ? "" : trimmed(text.substr(equals + 1));
              if (dtype.empty() || program.empty())
                throw CLI::ValidationError("--program takes 'DTYPE = TEXT', not '" + text + "'");
              options.programs[dtype] = program;
            }
          },
          "this program for tensors of DTYPE, as 'DTYPE = TEXT'; may be given again for other dtypes")
      ->type_name("SPEC")
      ->allow_extra_args(false);
}

void add_digest(CommandLine& line, PackOptions& options) {
  line.app()
      .add_option_function<std::string>(
          "--digest",
          [&options](const std::string& text) {
            if (text != "sha256" && text != "none")
              throw CLI::ValidationError("--digest takes sha256 or none, not '" + text + "'");
            options.sha256 = text == "sha256";
          },
          "sha256 or none: digest of each whole file (sha256)")
      ->type_name("NAME");
}

// An option that takes one of some names, in the order of its enumeration.
template <class Enum, size_t N>
void add_choice(CommandLine& line, const char* name, const char* const (&names)[N], Enum& value, const char* help) {
  line.app()
      .add_option_function<std::string>(
          name,
          [&names, &value, name](const std::string& text) {
            const auto at = std::find(std::begin(names), std::end(names), text);
            if (at == std::end(names)) {
              std::string all;
              for (const char* one : names) all += (all.empty() ? "" : ", ") + std::string(one);
              throw CLI::ValidationError(std::string(name) + " takes one of " + all + ", not '" + text + "'");
            }
            value = static_cast<Enum>(at - std::begin(names));
          },
          help)
      ->type_name("NAME");
}

constexpr const char* kProfiles[] = {"dense", "balanced", "fast"};
constexpr const char* kSearches[] = {"off", "uniform", "prior"};

void add_search(CommandLine& line, PackOptions& options) {
  CLI::App& app = line.app();
  add_choice(line, "--profile", kProfiles, options.profile, "dense, balanced or fast: how hard to look (balanced)");
  add_choice(line, "--search", kSearches, options.search, "off, uniform or prior: the search for programs (uniform)");
  app.add_option_function<uint64_t>(
         "--expansions", [&options](const uint64_t& n) { options.expansions = n; },
         "operators that one search may try (by profile)")
      ->check(CLI::NonNegativeNumber)
      ->type_name("N");
  app.add_option("--prior", options.prior, "prior to search by, instead of one learned from each file")
      ->type_name("FILE");
  app.add_option("--save-prior", options.save_prior, "write the prior learned from all files here")->type_name("FILE");
  app.add_option_function<std::vector<std::string>>(
         "--without",
         [&options](const std::vector<std::string>& names) { options.without.insert(names.begin(), names.end()); },
         "leave an operator out of the search; may be given again")
      ->type_name("NAME")
      ->allow_extra_args(false);
}

void add_relations(CommandLine& line, PackOptions& options) {
  CLI::App& app = line.app();
  app.add_option("--base", options.bases, "pack against this archive, or those of a directory; may be given again")
      ->type_name("ARCHIVE")
      ->allow_extra_args(false);
  app.add_option("--base-path", options.base_paths, "look for the bases of bases here, too")
      ->type_name("DIR")
      ->allow_extra_args(false);
  app.add_flag("--chain", options.chain,
               "sources are a series: each is packed against the one before, every fifth alone");
  app.add_flag("--dedupe", options.dedupe, "name what equals something in an archive of this run or a base");
  app.add_option_function<std::string>(
         "--rebase",
         [&options](const std::string& path) {
           options.bases.push_back(path);
           options.from_archives = true;
         },
         "sources are archives: pack them anew against this one")
      ->type_name("ARCHIVE");
  app.add_flag("--flatten", options.from_archives, "sources are archives: make them stand alone");
  app.add_flag("--resume", options.resume, "leave what was packed from the same sources with the same options");
  app.add_flag("--replace", options.replace, "remove each source, once its archive was read back and compared");
  app.add_option_function<std::string>(
         "--shard",
         [&options](const std::string& text) {
           unsigned shard = 0, shards = 0;
           char rest = 0;
           if (std::sscanf(text.c_str(), "%u/%u%c", &shard, &shards, &rest) != 2 || shards == 0 || shard >= shards)
             throw CLI::ValidationError("--shard takes I/N with I from 0 to N - 1, not '" + text + "'");
           options.shard = shard;
           options.shards = shards;
         },
         "take every N-th of the files, from number I (0 to N - 1) on: for job arrays")
      ->type_name("I/N");
}

struct Totals {
  uint64_t done = 0, failed = 0, resumed = 0;
};

Totals print_files(const PackReport& packed, int verbosity) {
  Totals totals;
  for (const PackedFile& file : packed.files) {
    if (!file.warning.empty() && verbosity >= 0) print_warning(file.source + ": " + file.warning);
    if (file.action == PackAction::failed) {
      ++totals.failed;
      if (file.error && file.error->kind() != Errc::cancelled) print_error(file.error->message());
      continue;
    }
    if (file.action != PackAction::skipped) ++totals.done;
    totals.resumed += file.resumed;
    if (verbosity >= 1) {
      std::string text = std::string(kActions[static_cast<size_t>(file.action)]) + " " + file.source;
      if (file.action == PackAction::packed)
        text += ", " + grouped(file.bytes_in) + " -> " + grouped(file.bytes_out) + " bytes, ratio " +
                ratio_text(file.bytes_in, file.bytes_out);
      print_error(text);
    }
  }
  return totals;
}

Json json_stream(const PackedStream& stream) {
  Json out = {{"name", stream.name},         {"dtype", stream.dtype},         {"tensors", stream.tensors},
              {"bytes_in", stream.bytes_in}, {"bytes_out", stream.bytes_out}, {"program", stream.program}};
  if (stream.search)
    out["search"] = {{"expansions", stream.search->expansions},
                     {"prior_hits", stream.search->prior_hits},
                     {"holes", stream.search->holes},
                     {"exhausted", stream.search->exhausted}};
  return out;
}

// What a dry run would have written.
void print_streams(const PackReport& packed) {
  for (const PackedFile& file : packed.files) {
    if (file.action != PackAction::packed) continue;
    std::printf("%s\n", printable(file.source).c_str());
    for (const PackedStream& stream : file.streams)
      std::printf("  %s%s  %s -> %s bytes\n    %s\n", printable(stream.name).c_str(),
                  stream.tensors > 1 ? (" (" + counted(stream.tensors, "tensor") + ")").c_str() : "",
                  grouped(stream.bytes_in).c_str(), grouped(stream.bytes_out).c_str(),
                  printable(stream.program).c_str());
  }
}

double saved_percent(const PackReport& packed) {
  if (packed.bytes_in == 0) return 0;
  return 100.0 * (1.0 - static_cast<double>(packed.bytes_out) / static_cast<double>(packed.bytes_in));
}

void print_report_json(const PackReport& packed, bool dry_run, int code) {
  Json document = json_document();
  document["files"] = Json::array();
  for (const PackedFile& file : packed.files) {
    Json one = {
        {"source", file.source}, {"target", file.target}, {"action", kActions[static_cast<size_t>(file.action)]}};
    if (file.action == PackAction::packed) one["verdict"] = verdict_name(file.verdict);
    if (!file.warning.empty()) one["warning"] = file.warning;
    one.update({{"bytes_in", file.bytes_in},
                {"bytes_out", file.bytes_out},
                {"ratio", json_ratio(file.bytes_in, file.bytes_out)}});
    if (file.action == PackAction::packed)
      one.update({{"tensors", file.tensors},
                  {"duplicate_tensors", file.duplicate_tensors},
                  {"duplicate_bytes", file.duplicate_bytes},
                  {"base_bytes", file.base_bytes}});
    if (file.resumed) one["resumed"] = true;
    if (!file.sha256.empty()) one["sha256"] = file.sha256;
    if (file.action == PackAction::packed) one["planning_seconds"] = file.planning_seconds;
    if (file.action == PackAction::packed) one["training_seconds"] = file.training_seconds;
    if (dry_run && file.action == PackAction::packed) {
      one["streams"] = Json::array();
      for (const PackedStream& stream : file.streams) one["streams"].push_back(json_stream(stream));
    }
    if (file.error) one["error"] = json_error(*file.error);
    document["files"].push_back(std::move(one));
  }
  document.update({{"bytes_in", packed.bytes_in},
                   {"bytes_out", packed.bytes_out},
                   {"ratio", json_ratio(packed.bytes_in, packed.bytes_out)},
                   {"saved_percent", saved_percent(packed)},
                   {"seconds", packed.seconds},
                   {"dry_run", dry_run},
                   {"exit_code", code}});
  print_json(document);
}

void print_summary(const PackReport& packed, const Totals& totals, bool dry_run) {
  const double speed = packed.seconds > 0 ? static_cast<double>(packed.bytes_in) / 1e9 / packed.seconds : 0;
  std::printf("%s, %s bytes in, %s bytes out, saved %.2f%%, %.3f GB/s%s", counted(totals.done, "file").c_str(),
              grouped(packed.bytes_in).c_str(), grouped(packed.bytes_out).c_str(), saved_percent(packed), speed,
              dry_run ? " (dry run: nothing written)" : "");
  if (totals.resumed != 0) std::printf("; %s packed before", grouped(totals.resumed).c_str());
  if (totals.failed != 0) std::printf("; %s failed", grouped(totals.failed).c_str());
  std::printf("\n");
}

void add_options(CommandLine& line, PackOptions& options, bool& no_verify) {
  CLI::App& app = line.app();
  app.add_option("source", options.sources, "files and directories")->required();
  app.add_option("-o,--output", options.target, "file or directory to write (default: beside the sources)")
      ->type_name("TARGET");
  line.add_jobs(options.jobs);
  line.add_size("--memory", options.memory, "cap on buffers (512MiB)");
  line.add_size("--frame-size", options.frame_bytes, "bytes a frame decodes to, 4KiB to 1MiB (512KiB)");
  add_programs(line, options);
  add_search(line, options);
  add_relations(line, options);
  app.add_flag("--strict", options.strict, "refuse files that break a rule of safetensors");
  app.add_flag("--allow-truncated", options.allow_truncated, "pack files that are shorter than their header says");
  app.add_flag("--no-verify", no_verify, "do not decode and compare every frame as it is written");
  add_digest(line, options);
  line.add_size("--opaque-min", options.opaque_min, "other files of a directory: smaller ones are copied (64KiB)");
  app.add_flag("--follow", options.follow_links, "pack what links that leave the directory point to");
  app.add_flag("--force", options.force, "overwrite targets that exist");
  app.add_flag("--dry-run", options.dry_run, "do everything but write");
  line.add_json();
  line.add_progress();
}

// Archives that may be packed against are held open, all of them.
void raise_descriptor_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int pack_main(int argc, char** argv) {
  CommandLine line("brevis-pack", "[options] SOURCE... [-o TARGET]",
                   "Packs safetensors files, and the other files of model directories, into archives that give back "
                   "every byte. A file becomes TARGET (or TARGET/NAME.brv), a directory its tree in TARGET.");
  PackOptions options;
  bool no_verify = false;
  add_options(line, options, no_verify);
  if (const auto code = line.parse(argc, argv)) return *code;
  if (options.memory == 0) {
    print_error("--memory 0 leaves no buffer to pack with: name a size (see brevis-pack --help)");
    return kExitUsage;
  }
  raise_descriptor_limit();
  options.verify = !no_verify;
  options.describe = options.dry_run;
  options.cancelled = stop_requested;
  ProgressBar bar(line.progress(), line.quiet());
  if (bar.shown())
    options.progress = [&bar](const PackProgress& at) {
      bar.update(at.file, at.bytes_done, at.bytes_total, at.bytes_packed);
    };
  const auto packed = pack_files(options);
  bar.clear();
  if (!packed) return report(packed.error(), line.json());
  const Totals totals = print_files(*packed, line.verbosity());
  int code = kExitFine;
  for (const PackedFile& file : packed->files)
    if (file.error && code == kExitFine) code = file_exit_code(*file.error, file.source, file.target);
  if (signal_exit_code() != 0) code = signal_exit_code();
  if (line.json())
    print_report_json(*packed, options.dry_run, code);
  else if (!line.quiet() && options.dry_run)
    print_streams(*packed);
  if (!line.json() && !line.quiet()) print_summary(*packed, totals, options.dry_run);
  return code;
}

// Buffers of a frame's size come and go by the thousand: given back to the kernel each time, their pages would be
// cleared anew each time.
void keep_freed_pages() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  mallopt(M_TRIM_THRESHOLD, 64 << 20);
#endif
}

}  // namespace
}  // namespace brevis::tools

int main(int argc, char** argv) {
  using namespace brevis::tools;
  set_program_name("brevis-pack");
  keep_freed_pages();
  return run_guarded([&] { return pack_main(argc, argv); });
}
