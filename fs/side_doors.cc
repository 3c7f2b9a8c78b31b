// SPDX-License-Identifier: Apache-2.0
#include "side_doors.h"

#include <unistd.h>

#include <cstdlib>

#include "brevis/log.h"
#include "brevis/version.h"

namespace brevis::fs {

namespace {

constexpr const char* kNone = "none";

Result<std::optional<Listening>> open_control(const Options& options, const std::string& mountpoint) {
  if (options.control == kNone) return std::optional<Listening>();
  if (!options.control.empty()) {
    BREVIS_ASSIGN(Listening listening, Listening::at_path(options.control, false));
    return std::optional<Listening>(std::move(listening));
  }
  const auto path = default_control_path(mountpoint, geteuid(), getenv("XDG_RUNTIME_DIR"));
  auto listening = path ? Listening::at_path(*path, true) : Result<Listening>(path.error());
  if (listening) return std::optional<Listening>(std::move(*listening));
  log(LogLevel::warning, "no control socket (brevis stats, add ...): name a place with --control",
      {{"cause", listening.error().message()}});
  return std::optional<Listening>();
}

Result<std::optional<Listening>> open_metrics(const Options& options) {
  constexpr std::string_view kUnix = "unix:";
  if (options.metrics.empty() || options.metrics == kNone) return std::optional<Listening>();
  auto listening = options.metrics.starts_with(kUnix) ? Listening::at_path(options.metrics.substr(kUnix.size()), false)
                                                      : Listening::at_address(options.metrics);
  if (!listening) return std::move(listening).error().within("--metrics");
  return std::optional<Listening>(std::move(*listening));
}

// Contract of the programs: a target that exists, or cannot be made, is 73.
int exit_code_of(const ControlRequest& request, const Error& error) {
  constexpr int kCannotCreate = 73;
  if (request.command == ControlCommand::put && error.kind() == Errc::invalid_argument) return kCannotCreate;
  return to_exit_code(error);
}

}  // namespace

Result<std::unique_ptr<SideDoors>> SideDoors::open(const Options& options, int source_fd,
                                                   const std::string& mountpoint) {
  std::unique_ptr<SideDoors> self(new SideDoors(options, source_fd));
  BREVIS_ASSIGN(auto control, open_control(options, mountpoint));
  if (control) self->control_.emplace(std::move(*control));
  BREVIS_ASSIGN(auto metrics, open_metrics(options));
  if (metrics) self->metrics_.emplace(std::move(*metrics));
  return self;
}

Status SideDoors::begin(Session& session, Volume& volume) {
  session_ = &session;
  volume_ = &volume;
  WatchOptions watching;
  watching.source_fd = source_fd_;
  watching.source_path = options_.source;
  watching.rescan_seconds = options_.rescan_seconds;
  watching.changed = [this](const std::vector<ChangedName>& names) { forget_names(names); };
  BREVIS_ASSIGN(watch_, TreeWatch::start(watching));
  SideActions actions;
  actions.answer = [this](const ControlRequest& request) { return answer(request); };
  actions.work = [this](const ControlRequest& request, const ControlJob& job) { return work(request, job); };
  actions.metrics = [this] { return metrics_text(numbers()); };
  BREVIS_ASSIGN(loop_, SideLoop::start(control_ ? control_->fd() : -1, metrics_ ? metrics_->fd() : -1, actions));
  if (metrics_) log(LogLevel::info, "metrics", {{"address", metrics_->address()}});
  volume.start_pushing(
      [&session](NodeId node, uint64_t offset, const ReadResult& bytes) { return session.store(node, offset, bytes); });
  return {};
}

void SideDoors::rescan() {
  volume_->rescan();
  if (watch_) watch_->rescan();
}

Numbers SideDoors::numbers() const {
  Numbers numbers;
  numbers.volume = volume_->counters();
  if (watch_) numbers.watch = watch_->counters();
  numbers.uptime = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - began_);
  numbers.latencies = &session_->latencies();
  return numbers;
}

bool SideDoors::end_work(std::chrono::milliseconds limit) { return !loop_ || loop_->stop(limit); }

bool SideDoors::end(std::chrono::milliseconds limit) {
  const bool pushed = !volume_ || volume_->stop_pushing(limit);
  return end_work(limit) && (!watch_ || watch_->stop(limit)) && pushed;
}

// On the watch's thread: the kernel may make us wait for requests under way in the directory.
void SideDoors::forget_names(const std::vector<ChangedName>& names) {
  const std::string* directory = nullptr;
  std::vector<NodeId> nodes;
  for (const ChangedName& changed : names) {
    if (!directory || *directory != changed.directory) {
      directory = &changed.directory;
      nodes = volume_->known_directories(changed.directory);
    }
    for (const NodeId node : nodes) session_->forget_name(node, changed.name);
  }
  volume_->close_removed();
}

std::string SideDoors::answer(const ControlRequest& request) {
  if (request.command == ControlCommand::rescan) {
    rescan();
    return control_answer({});
  }
  std::vector<ControlFact> facts = {ControlFact::of("version", std::string(BREVIS_VERSION)),
                                    ControlFact::of("pid", static_cast<uint64_t>(getpid())),
                                    ControlFact::of("source", options_.source),
                                    ControlFact::of("mountpoint", session_->mountpoint()),
                                    ControlFact::of("memory", options_.memory),
                                    ControlFact::of("max_background", uint64_t{options_.max_background})};
  for (ControlFact& fact : metrics_facts(numbers())) facts.push_back(std::move(fact));
  return control_answer(facts);
}

std::string SideDoors::work(const ControlRequest& request, const ControlJob& job) {
  return request.command == ControlCommand::put ? put(request, job) : remove(request);
}

std::string SideDoors::put(const ControlRequest& request, const ControlJob& job) {
  PutRequest what;
  what.source_fd = source_fd_;
  what.source_path = options_.source;
  what.path = request.path;
  what.file_fd = job.file_fd;
  what.replace = request.replace;
  what.cancelled = job.cancelled;
  what.progress = job.progress;
  const auto done = job.file_fd < 0
                        ? Result<uint64_t>(make_error(Errc::invalid_argument, "no file was passed to be put"))
                        : put_file(what);
  if (!done) return control_failure(done.error(), exit_code_of(request, done.error()));
  log(LogLevel::info, request.replace ? "replaced on request" : "added on request",
      {{"path", request.path}, {"bytes", std::to_string(*done)}});
  if (request.replace) volume_->close_removed();
  return control_answer({ControlFact::of("path", request.path), ControlFact::of("bytes", *done)});
}

std::string SideDoors::remove(const ControlRequest& request) {
  const auto removed = remove_file(source_fd_, options_.source, request.path);
  if (!removed) return control_failure(removed.error(), exit_code_of(request, removed.error()));
  log(LogLevel::info, "removed on request", {{"path", *removed}});
  volume_->close_removed();
  return control_answer({ControlFact::of("path", *removed)});
}

}  // namespace brevis::fs
