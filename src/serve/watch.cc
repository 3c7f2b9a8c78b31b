// SPDX-License-Identifier: Apache-2.0
//
// Noticing changes of the source. One thread keeps, of every directory, which archives it holds in which version, and
// compares: one name when inotify speaks of it, a directory when it appears, everything on request, on time and when
// the system lost events. Directories are watched through descriptors opened below the source's own, so that a mount
// over the source is not in the way. A directory is watched before it is listed: what happens in between is told twice
// rather than not at all.
//
// File systems of the network (and FUSE) tell only of changes made on this machine: there everything is looked at again
// every so often. Readers do not depend on it: the kernel asks again for a name after a second, and every answer is
// fresh. What depends on it are log lines, counters, and seeing a change sooner than that.
//
// An archive counts once it is whole: copied in place it has its header long before its end.
#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <future>
#include <map>
#include <set>
#include <thread>
#include <unordered_map>

#include "archive/format.h"
#include "base/io_tree.h"
#include "base/threads.h"
#include "brevis/living.h"
#include "brevis/log.h"
#include "serve/tree.h"

namespace brevis {
namespace serve {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kInteresting =
    IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO | IN_CLOSE_WRITE | IN_ATTRIB | IN_ONLYDIR | IN_EXCL_UNLINK;
// Versions are kept of this many archives (some 200 bytes each); changes of others are told, but not what they were.
constexpr uint64_t kMostKnown = uint64_t{1} << 18;
constexpr unsigned kMostDepth = 512;
constexpr size_t kMostNamesAtOnce = 4096;

std::string join(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

bool is_archive_name(std::string_view name) {
  return name.size() > kArchiveSuffix.size() && name.ends_with(kArchiveSuffix);
}

// Whether changes made elsewhere are told by the file system as well.
bool tells_of_changes(int fd) {
  struct statfs s {};
  if (::fstatfs(fd, &s) != 0) return false;
  constexpr uint32_t kSilent[] = {NFS_SUPER_MAGIC,
                                  SMB_SUPER_MAGIC,
                                  CIFS_SUPER_MAGIC,
                                  SMB2_SUPER_MAGIC,
                                  V9FS_MAGIC,
                                  AFS_SUPER_MAGIC,
                                  CODA_SUPER_MAGIC,
                                  CEPH_SUPER_MAGIC,
                                  FUSE_SUPER_MAGIC,
                                  0x0BD00BD0 /* Lustre */,
                                  0x47504653 /* GPFS */,
                                  0x01161970 /* GFS2 */,
                                  0x7461636f /* OCFS2 */,
                                  0x19830326 /* BeeGFS */,
                                  0x786f4256 /* vboxsf */};
  for (const uint32_t magic : kSilent)
    if (static_cast<uint32_t>(s.f_type) == magic) return false;
  return true;
}

struct Directory {
  int watch = -1;
  std::unordered_map<std::string, Version> archives;
};

class Watch final : public TreeWatch {
 public:
  explicit Watch(const WatchOptions& options) : options_(options) {}
  ~Watch() override {
    for (int fd : {inotify_, wake_})
      if (fd >= 0) ::close(fd);
  }

  Status begin() {
    wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_ < 0) return Error::from_errno(errno, "making an event descriptor");
    warn_of_file_system();
    if (tells_of_changes(options_.source_fd)) {
      inotify_ = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
      if (inotify_ < 0) no_events(Error::from_errno(errno, "inotify").message());
      told_ = inotify_ >= 0;
    }
    try {
      thread_ = std::thread([this, done = std::move(done_promise_)]() mutable {
        run();
        done.set_value();
      });
    } catch (const std::system_error& e) {
      return make_error(Errc::internal, std::string("cannot start a thread: ") + e.what());
    }
    return {};
  }

  void rescan() override {
    asked_ = true;
    wake();
  }

  bool stop(std::chrono::milliseconds limit) override {
    stopping_ = true;
    wake();
    if (!thread_.joinable()) return true;
    if (done_.wait_for(limit) != std::future_status::ready) return false;
    thread_.join();
    return true;
  }

  WatchCounters counters() const override {
    WatchCounters out;
    out.archives = archives_;
    out.directories = directories_;
    out.added = added_;
    out.replaced = replaced_;
    out.removed = removed_;
    out.rescans = rescans_;
    out.lost = lost_;
    out.told = told_;
    return out;
  }

 private:
  enum class Look : uint8_t { first, again };

  void wake() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
  }

  void run() {
    guarded([&] { look_at_all(Look::first); });
    next_ = Clock::now() + period();
    while (!stopping_) {
      pollfd fds[] = {{wake_, POLLIN, 0}, {told_ ? inotify_ : -1, POLLIN, 0}};
      if (::poll(fds, 2, timeout_ms()) < 0 && errno != EINTR) return;
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake_, &count, sizeof count);
      if (stopping_) return;
      guarded([&] {
        if (fds[1].revents != 0) read_events();
        if (asked_.exchange(false) || due()) {
          ++rescans_;
          look_at_all(Look::again);
          next_ = Clock::now() + period();
        }
        tell();
      });
    }
  }

  // Nothing of this thread's work is worth the daemon's life.
  template <class Body>
  void guarded(Body&& body) {
    try {
      body();
    } catch (const std::exception& e) {
      changed_.clear();
      log(LogLevel::error, "looking at the tree failed; it is looked at again", {{"cause", e.what()}});
      asked_ = true;
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
  }

  std::chrono::seconds period() const {
    if (options_.rescan_seconds == kRescanAuto) return std::chrono::seconds(told_ ? 0 : kRescanDefaultSeconds);
    return std::chrono::seconds(options_.rescan_seconds);
  }
  bool due() const { return period().count() > 0 && Clock::now() >= next_; }
  int timeout_ms() const {
    if (asked_) return 0;
    if (period().count() == 0) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(next_ - Clock::now()).count();
    return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
  }

  void warn_of_file_system() const {
    struct statfs s {};
    if (::fstatfs(options_.source_fd, &s) == 0 && static_cast<uint32_t>(s.f_type) == V9FS_MAGIC)
      log(LogLevel::warning, "archives on 9p (as WSL2's DrvFs) are slow to read: keep them on a disk of Linux",
          {{"source", options_.source_path}});
  }

  void no_events(const std::string& why) {
    told_ = false;
    log(LogLevel::warning,
        "the system cannot tell of all changes: the tree is looked at again every so often (--rescan); "
        "fs.inotify.max_user_watches and max_user_instances bound what it tells",
        {{"source", options_.source_path}, {"cause", why}});
  }

  void read_events() {
    alignas(inotify_event) char buffer[64 << 10];
    for (int rounds = 0; rounds < 64 && !stopping_; ++rounds) {
      const ssize_t got = ::read(inotify_, buffer, sizeof buffer);
      if (got <= 0) return;
      std::set<std::pair<std::string, std::string>> names;
      for (ssize_t at = 0; at < got;) {
        const auto& event = *reinterpret_cast<const inotify_event*>(buffer + at);
        at += static_cast<ssize_t>(sizeof event + event.len);
        on_event(event, names);
      }
      for (const auto& [directory, name] : names) look_at_name(directory, name);
    }
  }

  void on_event(const inotify_event& event, std::set<std::pair<std::string, std::string>>& names) {
    if (event.mask & IN_Q_OVERFLOW) {
      ++lost_;
      asked_ = true;
      return;
    }
    const auto watched = by_watch_.find(event.wd);
    if (watched == by_watch_.end()) return;
    const std::string directory = watched->second;
    if (event.mask & IN_IGNORED) {
      by_watch_.erase(watched);
      if (const auto known = known_.find(directory); known != known_.end() && known->second.watch == event.wd)
        known->second.watch = -1;
      return;
    }
    if (event.len == 0) return;
    const std::string name(event.name);
    if (directory.empty() && name == kRawName) return;
    if (event.mask & IN_ISDIR) {
      const std::string path = join(directory, name);
      change(directory, name);
      if (event.mask & (IN_DELETE | IN_MOVED_FROM)) forget(path);
      if (event.mask & (IN_CREATE | IN_MOVED_TO)) look_below(path, Look::again);
      return;
    }
    names.emplace(directory, name);
  }

  void look_at_all(Look look) {
    std::set<std::string> before;
    for (const auto& [path, directory] : known_) before.insert(path);
    look_below("", look, &before);
    for (const std::string& path : before) forget(path);  // not met again
  }

  // A directory and all below it. What is met is taken out of `unmet`.
  void look_below(const std::string& top, Look look, std::set<std::string>* unmet = nullptr) {
    std::vector<std::pair<std::string, unsigned>> pending = {{top, 0}};
    while (!pending.empty() && !stopping_) {
      const auto [path, depth] = std::move(pending.back());
      pending.pop_back();
      std::vector<std::string> below;
      if (!look_at_directory(path, look, below)) {
        if (path != top || !top.empty()) continue;
        if (unmet) unmet->clear();  // the source itself cannot be read just now: that says nothing of what it holds
        return;
      }
      if (unmet) unmet->erase(path);
      if (depth >= kMostDepth) continue;
      for (const std::string& name : below) pending.emplace_back(join(path, name), depth + 1);
    }
    if (stopping_ && unmet) unmet->clear();
  }

  bool look_at_directory(const std::string& path, Look look, std::vector<std::string>& below) {
    const auto at = open_directory_beneath(options_.source_fd, path);
    if (!at) return false;
    const auto [place, is_new] = known_.try_emplace(path);
    Directory& directory = place->second;
    if (is_new) ++directories_;
    if (told_) watch(at->get(), path, directory);
    const auto entries = list_directory_at(at->get(), ".");
    if (!entries) return true;
    std::set<std::string> gone;
    for (const auto& [name, version] : directory.archives) gone.insert(name);
    for (const DirEntry& entry : *entries) {
      if (entry.type == DT_DIR) {
        if (!path.empty() || entry.name != kRawName) below.push_back(entry.name);
      } else if (is_archive_name(entry.name)) {
        gone.erase(entry.name);
        look_at_archive(at->get(), path, directory, entry.name, look);
      }
    }
    for (const std::string& name : gone) note_gone(path, directory, name);
    return true;
  }

  void watch(int fd, const std::string& path, Directory& directory) {
    const std::string through = "/proc/self/fd/" + std::to_string(fd);
    const int number = ::inotify_add_watch(inotify_, through.c_str(), kInteresting);
    if (number < 0) {
      if (errno == ENOSPC || errno == ENOMEM) no_events(Error::from_errno(errno, "watching a directory").message());
      return;
    }
    if (directory.watch == number) return;
    directory.watch = number;
    by_watch_[number] = path;  // a directory that was moved keeps its number and has a new path
  }

  void look_at_name(const std::string& path, const std::string& name) {
    change(path, name);
    if (!is_archive_name(name)) return;
    const auto known = known_.find(path);
    const auto at = open_directory_beneath(options_.source_fd, path);
    if (known == known_.end() || !at) return;
    if (look_at_archive(at->get(), path, known->second, name, Look::again)) return;
    note_gone(path, known->second, name);
  }

  // False when there is nothing (whole) of that name.
  bool look_at_archive(int at, const std::string& path, Directory& directory, const std::string& name, Look look) {
    const auto stat = stat_at(at, name, false);
    if (!stat || !(stat->is_regular() || stat->is_symlink())) return false;
    const Version version = Version::of(*stat);
    const auto known = directory.archives.find(name);
    if (known != directory.archives.end() && known->second == version) return true;
    if (look == Look::again && !is_whole(at, path, name, *stat)) return false;
    if (known != directory.archives.end()) {
      known->second = version;
      note(replaced_, "an archive was replaced", path, name);
      return true;
    }
    if (archives_ >= kMostKnown) return true;
    directory.archives.emplace(name, version);
    ++archives_;
    if (look == Look::again) note(added_, "an archive appeared", path, name);
    return true;
  }

  bool is_whole(int at, const std::string& path, const std::string& name, const FileStat& stat) const {
    const auto file =
        stat.is_symlink() ? open_beneath(options_.source_fd, join(path, name), true) : open_beneath(at, name, false);
    if (!file) return false;
    advise_random(*file);
    uint8_t bytes[archive::kHeaderBytes];
    const auto behind = file->stat();
    const auto got = file->read_some(0, bytes);
    if (!behind || !got) return false;
    const auto header = archive::parse_header(ByteSpan(bytes).first(*got));
    return header && archive_is_whole(*file, *behind, *header);
  }

  void note_gone(const std::string& path, Directory& directory, const std::string& name) {
    if (directory.archives.erase(name) == 0) return;
    --archives_;
    note(removed_, "an archive vanished", path, name);
  }

  void note(std::atomic<uint64_t>& counter, const char* what, const std::string& path, const std::string& name) {
    ++counter;
    log(LogLevel::info, what, {{"archive", join(options_.source_path, join(path, name))}});
    change(path, name);
  }

  void change(const std::string& path, const std::string& name) {
    changed_.push_back({path, name});
    if (is_archive_name(name)) changed_.push_back({path, name.substr(0, name.size() - kArchiveSuffix.size())});
    if (changed_.size() >= kMostNamesAtOnce) tell();
  }

  // A directory and all below it are gone from their names.
  void forget(const std::string& path) {
    const auto drop = [&](std::map<std::string, Directory>::iterator at) {
      std::vector<std::string> names;
      for (const auto& [name, version] : at->second.archives) names.push_back(name);
      for (const std::string& name : names) note_gone(at->first, at->second, name);
      if (at->second.watch >= 0) {
        by_watch_.erase(at->second.watch);
        ::inotify_rm_watch(inotify_, at->second.watch);
      }
      --directories_;
      return known_.erase(at);
    };
    if (const auto at = known_.find(path); at != known_.end()) drop(at);
    const std::string below = path + "/";
    for (auto at = known_.lower_bound(below); at != known_.end() && at->first.starts_with(below);) at = drop(at);
  }

  void tell() {
    if (changed_.empty()) return;
    std::vector<ChangedName> told;
    told.swap(changed_);
    if (options_.changed) options_.changed(told);
  }

  const WatchOptions options_;
  int inotify_ = -1, wake_ = -1;
  std::atomic<bool> told_{false}, asked_{false}, stopping_{false};
  std::atomic<uint64_t> archives_{0}, directories_{0}, added_{0}, replaced_{0}, removed_{0}, rescans_{0}, lost_{0};
  // Of the thread alone:
  std::map<std::string, Directory> known_;
  std::unordered_map<int, std::string> by_watch_;
  std::vector<ChangedName> changed_;
  Clock::time_point next_{};

  std::promise<void> done_promise_;
  std::future<void> done_ = done_promise_.get_future();
  std::thread thread_;
};

}  // namespace
}  // namespace serve

Result<std::unique_ptr<TreeWatch>> TreeWatch::start(const WatchOptions& options) {
  auto watch = std::make_unique<serve::Watch>(options);
  BREVIS_TRY(watch->begin());
  return std::unique_ptr<TreeWatch>(std::move(watch));
}

}  // namespace brevis
