// SPDX-License-Identifier: Apache-2.0
#include "mounts.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "brevis/log.h"

extern char** environ;

namespace brevis::fs {

namespace {

// The table writes blanks and backslashes as \ooo.
std::string unescape(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto digit = [&](size_t k) { return i + k < text.size() && text[i + k] >= '0' && text[i + k] <= '7'; };
    if (text[i] == '\\' && digit(1) && digit(2) && digit(3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

// Runs fusermount3, the set-uid helper that unmounts for ordinary users. True when it said yes.
bool run_fusermount(const std::string& path, bool lazily) {
  std::vector<const char*> arguments = {"fusermount3", "-u", "-q"};
  if (lazily) arguments.push_back("-z");
  arguments.insert(arguments.end(), {"--", path.c_str(), nullptr});
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  const int fault =
      posix_spawnp(&child, "fusermount3", nullptr, &attributes, const_cast<char**>(arguments.data()), environ);
  posix_spawnattr_destroy(&attributes);
  if (fault != 0) return false;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

Status take_off(const std::string& path, bool lazily) {
  const auto entry = mount_at(path);
  if (!entry || !entry->is_brevis()) return make_error(Errc::not_found, path + " is not a mount of brevis-mount");
  if (geteuid() == 0) {
    if (umount2(path.c_str(), UMOUNT_NOFOLLOW | (lazily ? MNT_DETACH : 0)) == 0) return {};
    if (errno == EBUSY) return make_error(Errc::busy, path + " is in use: close the files open there first");
    return Error::from_errno(errno, "cannot unmount " + path);
  }
  if (run_fusermount(path, lazily)) return {};
  return make_error(Errc::busy, "fusermount3 cannot unmount " + path +
                                    ": files are open there, it is another user's, or fusermount3 is missing");
}

bool file_has_line(const char* path, const std::string& wanted) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    line.erase(line.find_last_not_of(" \t\r") + 1);
    if (line == wanted) return true;
  }
  return false;
}

}  // namespace

std::vector<MountEntry> parse_mount_table(const std::string& text) {
  std::vector<MountEntry> entries;
  std::istringstream lines(text);
  std::string line;
  while (std::getline(lines, line)) {
    // 36 35 98:0 /root /path options optional... - type source super-options
    std::istringstream words(line);
    std::string id, parent, device, root, path, word;
    if (!(words >> id >> parent >> device >> root >> path)) continue;
    while (words >> word && word != "-") {
    }
    MountEntry entry;
    if (!(words >> entry.type >> entry.source)) continue;
    const size_t colon = device.find(':');
    if (colon == std::string::npos) continue;
    entry.major = static_cast<unsigned>(strtoul(device.c_str(), nullptr, 10));
    entry.minor = static_cast<unsigned>(strtoul(device.c_str() + colon + 1, nullptr, 10));
    entry.path = unescape(path);
    entry.source = unescape(entry.source);
    entries.push_back(std::move(entry));
  }
  return entries;
}

// By asking the file system itself: what the kernel remembers of a dead one's root would say it lives.
bool is_dead(const std::string& path) {
  struct statx s;
  if (statx(AT_FDCWD, path.c_str(), AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &s) == 0) return false;
  return errno == ENOTCONN || errno == ECONNABORTED;
}

// A process asks, since a question that was put cannot be taken back.
Pulse feel(const std::string& path) {
  constexpr int kPatienceMs = 10'000;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return is_dead(path) ? Pulse::dead : Pulse::alive;
  const pid_t child = fork();
  if (child == 0) {
    const char word = is_dead(path) ? 'd' : 'a';
    _exit(write(ends[1], &word, 1) != 1);
  }
  close(ends[1]);
  char word = 0;
  pollfd answer{ends[0], POLLIN, 0};
  int found = 0;
  do found = poll(&answer, 1, kPatienceMs);
  while (found < 0 && errno == EINTR);
  if (found > 0 && read(ends[0], &word, 1) != 1) word = 0;
  close(ends[0]);
  if (child < 0) return is_dead(path) ? Pulse::dead : Pulse::alive;
  kill(child, SIGKILL);
  // One that waits where no signal reaches it ends when the connection is cut.
  if (word != 0) waitpid(child, nullptr, 0);
  return word == 'd' ? Pulse::dead : word == 'a' ? Pulse::alive : Pulse::silent;
}

std::optional<MountEntry> mount_at(const std::string& path) {
  std::ifstream file("/proc/self/mountinfo");
  std::stringstream text;
  text << file.rdbuf();
  std::optional<MountEntry> found;
  for (MountEntry& entry : parse_mount_table(text.str()))
    if (entry.path == path) found = std::move(entry);  // later ones lie on top
  return found;
}

Result<std::string> resolve_path(const std::string& path) {
  std::string name = path;
  while (name.size() > 1 && name.back() == '/') name.pop_back();  // or a mount that hangs would be asked
  if (char* resolved = realpath(name.c_str(), nullptr)) {
    std::string out = resolved;
    std::free(resolved);
    return out;
  }
  if (errno != ENOTCONN && errno != ECONNABORTED) return Error::from_errno(errno, "cannot use " + path);
  // A dead mount: its own name cannot be asked, its parent's can.
  const size_t slash = name.rfind('/');
  const std::string parent = slash == std::string::npos ? "." : slash == 0 ? "/" : name.substr(0, slash);
  char* resolved = realpath(parent.c_str(), nullptr);
  if (!resolved) return Error::from_errno(errno, "cannot use " + path);
  std::string out = resolved;
  std::free(resolved);
  return (out == "/" ? "" : out) + "/" + name.substr(slash == std::string::npos ? 0 : slash + 1);
}

Status prepare_mountpoint(const std::string& path) {
  // Mounts stacked by earlier crashes are cleared one after the other; the bound only ends a fight with somebody else.
  constexpr int kMost = 16;
  for (int i = 0; i < kMost; ++i) {
    const auto entry = mount_at(path);
    const Pulse pulse = feel(path);
    const bool dead = pulse == Pulse::dead;
    if (!entry || (!dead && !entry->is_brevis())) return {};
    if (!entry->is_brevis())
      return make_error(Errc::busy, path + " is a dead mount of " + entry->source + " (" + entry->type +
                                        "): unmount it first (fusermount3 -u " + path + ")");
    if (pulse == Pulse::silent)
      return make_error(Errc::busy, path + " is a mount that does not answer (" + entry->source +
                                        "): cut it off first (brevis-mount --unmount " + path + ")");
    if (!dead)
      return make_error(Errc::busy, path + " is served already (" + entry->source +
                                        "): unmount it first (brevis-mount --unmount " + path + ")");
    BREVIS_TRY(detach(path));
    log(LogLevel::warning, "cleared a stale mount left by a brevis-mount that died", {{"path", path}});
  }
  return make_error(Errc::busy, path + ": more dead mounts than can be cleared");
}

Result<std::optional<unsigned>> depth_below(const std::string& inner, int outer_fd) {
  struct stat outer = {}, here = {};
  if (fstat(outer_fd, &outer) != 0) return Error::from_errno(errno, "cannot examine the source directory");
  int fd = open(inner.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Error::from_errno(errno, "cannot use " + inner);
  std::optional<unsigned> depth;
  struct stat above = {};
  for (unsigned level = 0; fstat(fd, &here) == 0; ++level) {
    if (here.st_dev == outer.st_dev && here.st_ino == outer.st_ino) {
      depth = level;
      break;
    }
    if (level > 0 && here.st_dev == above.st_dev && here.st_ino == above.st_ino) break;  // the root is its own parent
    above = here;
    const int parent = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (parent < 0) break;
    close(fd);
    fd = parent;
  }
  close(fd);
  return depth;
}

Status unmount(const std::string& path) { return take_off(path, false); }
Status detach(const std::string& path) { return take_off(path, true); }

Result<int> open_abort_file(unsigned connection) {
  const std::string name = std::to_string(connection) + "/abort";
  const std::string path = "/sys/fs/fuse/connections/" + name;
  int file = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file >= 0) return file;
  const Error fault = Error::from_errno(errno, "cannot open " + path);
  // Where nobody has mounted the file system of these files, root may, in no place of the tree.
  const int context = fsopen("fusectl", FSOPEN_CLOEXEC);
  if (context < 0) return fault;
  if (fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) == 0) {
    const int root = fsmount(context, FSMOUNT_CLOEXEC, 0);
    if (root >= 0) {
      file = openat(root, name.c_str(), O_WRONLY | O_CLOEXEC);
      close(root);
    }
  }
  close(context);
  if (file >= 0) return file;
  return fault;
}

Status cut_off(const std::string& path) {
  const auto entry = mount_at(path);
  if (!entry || !entry->is_brevis()) return make_error(Errc::not_found, path + " is not a mount of brevis-mount");
  const auto file = open_abort_file(entry->minor);
  if (file) {
    [[maybe_unused]] const ssize_t written = write(*file, "1", 1);
    close(*file);
  } else if (geteuid() == 0) {
    umount2(path.c_str(), UMOUNT_NOFOLLOW | MNT_FORCE);  // cuts, whether or not it unmounts
    if (const auto left = mount_at(path); !left || !left->same_file_system(*entry)) return {};
  } else {
    return file.error();
  }
  return detach(path);
}

void set_kernel_readahead(const MountEntry& mount, unsigned kib) {
  const std::string path =
      "/sys/class/bdi/" + std::to_string(mount.major) + ":" + std::to_string(mount.minor) + "/read_ahead_kb";
  const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const std::string text = std::to_string(kib);
  if (fd < 0 || write(fd, text.data(), text.size()) < 0)
    log(LogLevel::debug, "the kernel's read-ahead stays as it is: reads through the page cache are slower",
        {{"path", path}, {"cause", Error::from_errno(errno, "write").message()}});
  if (fd >= 0) close(fd);
}

Status check_fuse_access(bool for_others) {
  constexpr const char* kDevice = "/dev/fuse";
  const int fd = open(kDevice, O_RDWR | O_CLOEXEC);
  const int fault = errno;
  if (fd >= 0) close(fd);
  if (fd < 0 && (fault == EACCES || fault == EPERM))
    return make_error(Errc::permission, "this user may not open /dev/fuse: ask for mode 0666 on it, or mount as root");
  if (fd < 0)
    return make_error(
        Errc::unavailable,
        "/dev/fuse is not there: load the kernel's fuse module (modprobe fuse), or in a container pass the "
        "device in; 'brevis extract' works without it");
  constexpr const char* kConfig = "/etc/fuse.conf";
  if (for_others && geteuid() != 0 && !file_has_line(kConfig, "user_allow_other"))
    return make_error(Errc::permission, std::string("--allow-other needs the line 'user_allow_other' in ") + kConfig +
                                            " when the mount is not root's");
  return {};
}

}  // namespace brevis::fs
