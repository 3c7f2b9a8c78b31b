// SPDX-License-Identifier: Apache-2.0
//
// brevis-mount. The order of the start matters and is this:
//
//   1. options; nothing else has happened when they are wrong
//   2. the mount point: dead mounts of ours are cleared, a live one is refused
//   3. SOURCE is opened, before it can be hidden by mounting over it
//   4. to the background: the parent waits for the mount to answer, so that it can say why it does not
//   5. signals are blocked and the guard is forked, then the first thread may exist: the Volume's workers
//   6. the control socket and the metrics' address are taken, or found taken
//   7. the mount, which the guard is told of, the threads that answer it, then those of the side doors
//   8. when the kernel's first request has been answered: ready
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "background.h"
#include "brevis/log.h"
#include "brevis/process.h"
#include "brevis/version.h"
#include "brevis/volume.h"
#include "guard.h"
#include "life.h"
#include "log_sink.h"
#include "mounts.h"
#include "options.h"
#include "session.h"
#include "side_doors.h"

extern char** environ;

namespace brevis::fs {

namespace {

// A descriptor of the start; the process is its owner until the end.
Result<int> open_source(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd >= 0) return fd;
  if (errno == ENOTDIR)
    return make_error(Errc::invalid_argument, path + " is not a directory: name the directory that holds the archive");
  return Error::from_errno(errno, "cannot open the source " + path);
}

// What the daemon writes while it serves, with the option that names it.
std::vector<std::pair<const char*, std::string>> written_places(const Options& options) {
  std::vector<std::pair<const char*, std::string>> places;
  if (!options.log_file.empty()) places.emplace_back("--log-file", options.log_file);
  if (options.control.starts_with('/')) places.emplace_back("--control", options.control);
  if (options.metrics.starts_with("unix:")) places.emplace_back("--metrics", options.metrics.substr(5));
  return places;
}

// The folder or, when it is not there yet, the nearest one above it.
std::string existing_folder(std::string folder) {
  while (access(folder.c_str(), F_OK) != 0) {
    const size_t slash = folder.rfind('/');
    if (slash == std::string::npos) return ".";
    if (slash == 0) return "/";
    folder.resize(slash);
  }
  return folder;
}

Status check_written_places(const Options& options, int target_fd, int source_fd) {
  for (const auto& [option, path] : written_places(options)) {
    const size_t slash = path.rfind('/');
    const std::string folder = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
    const auto inside = depth_below(folder, target_fd);
    if (inside && *inside)
      return make_error(Errc::invalid_argument,
                        std::string(option) + " " + path + " lies under the mount point, where nothing can be written");
  }
  if (options.cache_dir.empty()) return {};
  const std::string folder = existing_folder(options.cache_dir);
  if (depth_below(folder, target_fd).value_or(std::nullopt) || depth_below(folder, source_fd).value_or(std::nullopt))
    return make_error(Errc::invalid_argument, "--cache-dir " + options.cache_dir +
                                                  " lies inside SOURCE or MOUNTPOINT: take a place of its own");
  return {};
}

// Reading the tree must never lead back into our own mount, or the daemon would wait for itself.
Status check_places(const Options& options, const std::string& target, int source_fd) {
  BREVIS_ASSIGN(const auto depth, depth_below(target, source_fd));
  if (depth && *depth > 0)
    return make_error(Errc::invalid_argument, "MOUNTPOINT " + target + " lies inside SOURCE " + options.source +
                                                  ": take one outside, or leave it "
                                                  "out to mount over SOURCE itself");
  const int target_fd = open(target.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (target_fd < 0) return Error::from_errno(errno, "cannot use " + target);
  const Status fine = check_written_places(options, target_fd, source_fd);
  close(target_fd);
  return fine;
}

// Each open archive holds a descriptor; the usual soft limit of 1024 is soon reached.
void raise_descriptor_limit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

// The usual variables of all Brevis programs that are no option of this one.
void mention_unknown_environment() {
  for (char** variable = environ; *variable; ++variable) {
    std::string name(*variable);
    if (!name.starts_with("BREVIS_")) continue;
    name.resize(std::min(name.find('='), name.size()));
    std::string option;
    for (size_t i = std::strlen("BREVIS_"); i < name.size(); ++i)
      option += name[i] == '_' ? '-' : static_cast<char>(tolower(name[i]));
    if (!find_option(option)) log(LogLevel::debug, "no option of brevis-mount", {{"variable", name}});
  }
}

constexpr std::chrono::milliseconds kPatience{3000};

Status serve(Options options) {
  BREVIS_ASSIGN(const std::string target, resolve_path(options.target()));
  BREVIS_TRY(prepare_mountpoint(target));
  BREVIS_ASSIGN(options.source, resolve_path(options.source));
  BREVIS_ASSIGN(const int source_fd, open_source(options.source));
  BREVIS_TRY(check_places(options, target, source_fd));
  BREVIS_TRY(check_fuse_access(options.allow_other || options.allow_root));
  BREVIS_TRY(install_log(options));

  Background background = Background::in_front();
  if (!options.foreground) {
    BREVIS_ASSIGN(background, Background::start());
  }
  if (options.cache == CacheMode::off) options.cache_dir.clear();
  if (chdir("/") != 0) return Error::from_errno(errno, "cannot leave the current directory");
  raise_descriptor_limit();
  block_signals();
  log_fatal_signals(Guard::alarm);
  mention_unknown_environment();
  Guard guard = Guard::start();

  VolumeOptions volume_options;
  volume_options.source_fd = source_fd;
  volume_options.source_path = options.source;
  volume_options.memory = options.memory;
  volume_options.jobs = options.jobs;
  volume_options.show_archives = options.show_archives;
  volume_options.readahead = options.readahead;
  volume_options.cache_dir = options.cache_dir;
  volume_options.cache_size = options.cache_size;
  volume_options.cache_always = options.cache == CacheMode::always;
  volume_options.base_paths = options.base_paths;
  BREVIS_ASSIGN(std::unique_ptr<Volume> volume, Volume::open(volume_options));

  BREVIS_ASSIGN(const std::unique_ptr<SideDoors> doors, SideDoors::open(options, source_fd, target));

  SessionOptions session_options;
  session_options.control = doors->control_path();
  session_options.source = options.source;
  session_options.mountpoint = target;
  session_options.mount_options = options.mount_options;
  session_options.allow_other = options.allow_other;
  session_options.allow_root = options.allow_root;
  session_options.max_background = options.max_background;
  session_options.loop_threads =
      options.loop_threads ? options.loop_threads : std::max(2u, std::thread::hardware_concurrency());
  BREVIS_ASSIGN(std::unique_ptr<Session> session, Session::mount(session_options, *volume));
  guard.watch(session->connection_fd(), session->entry());

  Status end = session->start();
  if (end) end = doors->begin(*session, *volume);
  if (end) end = run_until_end(*session, *doors, guard, options, background);
  if (!end && session->left_behind()) (void)detach(target);                // never leave a mount that nobody answers
  if (!doors->end(kPatience)) _exit(end ? 0 : to_exit_code(end.error()));  // hangs in storage that does not answer
  volume.reset();  // its workers may still answer through the session
  return end;
}

int complain(const Error& error) {
  fprintf(stderr, "brevis-mount: %s\n", error.message().c_str());
  return to_exit_code(error);
}

// --unmount. Files open in a dead mount are of no use to anybody, nor are those in one that does not answer.
Status take_down(const std::string& target) {
  const auto entry = mount_at(target);
  if (!entry || !entry->is_brevis()) return unmount(target);  // says what is wrong
  switch (feel(target)) {
    case Pulse::alive: return unmount(target);
    case Pulse::dead: return detach(target);
    case Pulse::silent: break;
  }
  log(LogLevel::warning, "the mount does not answer: its connection is cut", {{"mountpoint", target}});
  return cut_off(target);
}

int run(int argc, char** argv) {
  const auto environment = [](const std::string& name) -> const char* {
    const char* value = getenv(name.c_str());
    return value && *value ? value : nullptr;
  };
  const auto options = parse_options(argc, argv, environment);
  if (!options) return complain(options.error());
  if (options->help) return fputs(help_text().c_str(), stdout) < 0;
  if (options->version) return puts("brevis-mount " BREVIS_VERSION) < 0;
  if (options->unmount) {
    const auto target = resolve_path(options->target());
    const Status done = target ? take_down(*target) : Status(target.error());
    // A service cleans up after every stop, mostly with nothing left to do.
    if (!done && done.error().kind() == Errc::not_found && options->verbosity < 0) return to_exit_code(done.error());
    return done ? 0 : complain(done.error());
  }
  // Whatever our caller left open is not the daemon's to keep.
  if (!options->foreground) close_range(STDERR_FILENO + 1, ~0u, 0);
  const Status done = serve(*options);
  return done ? 0 : complain(done.error());
}

}  // namespace

}  // namespace brevis::fs

int main(int argc, char** argv) {
  brevis::hold_standard_streams();
  try {
    return brevis::fs::run(argc, argv);
  } catch (const std::exception& e) {
    fprintf(stderr, "brevis-mount: internal error: %s\n", e.what());
    return 70;
  }
}
