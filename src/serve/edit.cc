// SPDX-License-Identifier: Apache-2.0
//
// Putting files into the source and taking them out. Every step goes through a descriptor of the directory, never by a
// path: the path leads through the mount that lies over it. AtomicFile takes paths, so it is given
// /proc/self/fd/N/NAME, and its messages get the name that people know.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "archive/bases.h"
#include "archive/format.h"
#include "archive/reader.h"
#include "base/io_tree.h"
#include "brevis/living.h"
#include "brevis/log.h"
#include "serve/tree.h"

namespace brevis {
namespace serve {
namespace {

constexpr size_t kMaxName = 255, kMaxPath = 4096;

std::string quoted(const std::string& root, const std::string& path) { return "'" + root + "/" + path + "'"; }

std::vector<std::string> parts_of(const std::string& path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= path.size();) {
    const size_t end = std::min(path.find('/', at), path.size());
    parts.push_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

// The gate for paths of strangers: names one after the other, nothing that leads elsewhere.
Status check_path(const std::string& path) {
  const auto bad = [&](const char* why) { return make_error(Errc::invalid_argument, "'" + path + "' " + why); };
  if (path.empty() || path.size() > kMaxPath) return bad("is no path below the source");
  if (path.find('\0') != path.npos) return bad("holds a zero byte");
  const std::vector<std::string> parts = parts_of(path);
  for (const std::string& part : parts) {
    if (part.empty() || part == "." || part == "..") return bad("is no plain path below the source");
    if (part.size() > kMaxName) return bad("has a name longer than 255 bytes");
  }
  if (parts.front() == kRawName) return bad("lies where the raw archives are shown: name it without '.brevis/'");
  return {};
}

// The directory and the last name of a path that passed the gate.
std::pair<std::string, std::string> split(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

// What was made for a file that then could not be put goes again, unless somebody uses it by now.
class MadeDirectories {
 public:
  ~MadeDirectories() {
    for (auto made = made_.rbegin(); made != made_.rend(); ++made)
      ::unlinkat(made->first.get(), made->second.c_str(), AT_REMOVEDIR);
  }
  void add(UniqueFd parent, const std::string& name) { made_.emplace_back(std::move(parent), name); }
  void keep() { made_.clear(); }

 private:
  std::vector<std::pair<UniqueFd, std::string>> made_;
};

Result<UniqueFd> make_directories_beneath(int root, const std::string& directory, MadeDirectories& made) {
  BREVIS_ASSIGN(UniqueFd at, open_directory_beneath(root, ""));
  if (directory.empty()) return at;
  for (const std::string& part : parts_of(directory)) {
    const bool is_new = ::mkdirat(at.get(), part.c_str(), 0777) == 0;
    if (!is_new && errno != EEXIST)
      return Error::from_errno(errno, "creating directory '" + directory + "'").creating();
    auto next = open_directory_beneath(at.get(), part);
    if (is_new) made.add(std::move(at), part);
    if (!next) return std::move(next).error();
    at = std::move(*next);
  }
  return at;
}

bool exists(int at, const std::string& name) { return stat_at(at, name, false).has_value(); }

// Messages name the way through /proc; people know another.
Error shown_as(const Error& error, const std::string& from, const std::string& to) {
  std::string message = error.message();
  for (size_t at = message.find(from); at != message.npos; at = message.find(from, at + to.size()))
    message.replace(at, from.size(), to);
  Error shown(error.kind(), std::move(message), error.os_errno());
  return error.is_creating() ? std::move(shown).creating() : shown;
}

Result<std::shared_ptr<const archive::Reader>> check_archive(const File& file) {
  BREVIS_ASSIGN(File copy, duplicate(file));
  return archive::Reader::open(std::move(copy));
}

// An archive that others of the tree, or its successor, stand on stays, unless one of the same id takes its place.
// `successor` may be null.
Status check_not_needed(int source_fd, const std::string& source_path, const std::string& path,
                        const archive::Reader* successor) {
  const auto file = open_beneath(source_fd, path, false);
  if (!file) return {};
  ByteVector first(archive::kHeaderBytes);
  const auto got = file->read_some(0, first);
  if (!got) return {};
  first.resize(*got);
  const auto header = archive::parse_header(first);
  if (!header || (successor != nullptr && header->id == successor->header().id)) return {};
  if (successor != nullptr)
    for (const archive::Base& base : successor->manifest().bases)
      if (base.id == header->id)
        return make_error(Errc::invalid_argument, quoted(source_path, path) +
                                                      " is the base of what would take its place: add that under "
                                                      "another name, or make it stand alone (brevis-pack --flatten)");
  const std::string root = "/proc/self/fd/" + std::to_string(source_fd) + "/.";
  const std::vector<std::string> users = archive::needed_by(root, header->id);
  if (users.empty()) return {};
  return make_error(Errc::invalid_argument,
                    quoted(source_path, path) + " is the base of " +
                        quoted(source_path, users.front().substr(root.size() + 1)) +
                        (users.size() > 1 ? " and " + std::to_string(users.size() - 1) + " more" : "") +
                        ": take those out first, or make them stand alone (brevis-pack --flatten)");
}

// Whether the name may be put, told before the bytes are copied.
Status check_target(const PutRequest& request, int at, const std::string& name) {
  const std::string shown = quoted(request.source_path, request.path);
  const auto found = stat_at(at, name, false);
  if (request.replace) {
    if (!found)
      return found.error().kind() == Errc::not_found
                 ? make_error(Errc::not_found, shown + " does not exist: there is nothing to replace (brevis add adds)")
                 : found.error();
    if (!found->is_regular())
      return make_error(Errc::invalid_argument, shown + " is no regular file and is left as it is");
    return {};
  }
  if (found) return make_error(Errc::invalid_argument, shown + " exists already: brevis replace replaces it");
  const bool is_archive = name.ends_with(kArchiveSuffix) && name.size() > kArchiveSuffix.size();
  const std::string other =
      is_archive ? name.substr(0, name.size() - kArchiveSuffix.size()) : name + std::string(kArchiveSuffix);
  if (exists(at, other))
    return make_error(Errc::invalid_argument, shown + ": '" + other + "' stands there already, and readers would " +
                                                  (is_archive ? "go on to see that" : "no longer see what it holds") +
                                                  ": take it out first (brevis remove)");
  return {};
}

Status copy(const PutRequest& request, const File& from, uint64_t size, AtomicFile& to) {
  return to.append_file(from, size, [&](uint64_t done) -> Status {
    if (request.cancelled && request.cancelled()) return make_error(Errc::cancelled, "stopped on request");
    if (request.progress) request.progress(done, size);
    return {};
  });
}

Result<uint64_t> put(const PutRequest& request) {
  BREVIS_TRY(check_path(request.path));
  const auto [directory, name] = split(request.path);
  UniqueFd duplicated(::fcntl(request.file_fd, F_DUPFD_CLOEXEC, 0));
  if (!duplicated) return Error::from_errno(errno, "using the file passed for '" + request.path + "'");
  const File from = File::adopt(std::move(duplicated), "what is to become " + name);
  BREVIS_ASSIGN(const FileStat stat, from.stat());
  if (!stat.is_regular())
    return make_error(Errc::invalid_argument, "what is to become '" + request.path + "' is no regular file");
  const bool is_archive = name.ends_with(kArchiveSuffix) && name.size() > kArchiveSuffix.size();
  std::shared_ptr<const archive::Reader> successor;
  if (is_archive) {
    BREVIS_ASSIGN(successor, check_archive(from));
  }

  MadeDirectories made;
  UniqueFd at;
  if (request.replace) {
    BREVIS_ASSIGN(at, open_directory_beneath(request.source_fd, directory));
  } else {
    BREVIS_ASSIGN(at, make_directories_beneath(request.source_fd, directory, made));
  }
  BREVIS_TRY(check_target(request, at.get(), name));
  if (request.replace)
    BREVIS_TRY(check_not_needed(request.source_fd, request.source_path, request.path, successor.get()));
  const std::string folder = "/proc/self/fd/" + std::to_string(at.get());
  const auto write = [&]() -> Status {
    BREVIS_ASSIGN(AtomicFile to, AtomicFile::create(folder + "/" + name, request.replace));
    BREVIS_TRY(copy(request, from, stat.size, to));
    BREVIS_ASSIGN(const FileStat now, from.stat());
    if (!now.same_version(stat))
      return make_error(Errc::changed, "what is to become '" + request.path + "' was changed while it was copied");
    BREVIS_TRY(to.set_mode_and_times(stat.mode, stat.atime_ns, stat.mtime_ns));
    return to.commit();
  };
  if (Status written = write(); !written)
    return shown_as(written.error(), folder, request.source_path + (directory.empty() ? "" : "/" + directory));
  made.keep();
  return stat.size;
}

Result<std::string> remove(int source_fd, const std::string& source_path, const std::string& path) {
  BREVIS_TRY(check_path(path));
  const auto [directory, name] = split(path);
  BREVIS_ASSIGN(const UniqueFd at, open_directory_beneath(source_fd, directory));
  std::string target = name;
  auto stat = stat_at(at.get(), target, false);
  if (!stat && stat.error().kind() == Errc::not_found) {
    target += kArchiveSuffix;
    stat = stat_at(at.get(), target, false);
    if (!stat) return make_error(Errc::not_found, quoted(source_path, path) + " does not exist, nor does it with .brv");
  }
  if (!stat) return std::move(stat).error();
  const std::string whole = directory.empty() ? target : directory + "/" + target;
  if (stat->is_directory())
    return make_error(Errc::invalid_argument, quoted(source_path, whole) + " is a directory: name the files in it");
  BREVIS_TRY(check_not_needed(source_fd, source_path, whole, nullptr));
  if (::unlinkat(at.get(), target.c_str(), 0) != 0)
    return Error::from_errno(errno, "removing " + quoted(source_path, whole));
  ::fsync(at.get());  // best effort: the name is gone either way
  return whole;
}

}  // namespace
}  // namespace serve

Result<uint64_t> put_file(const PutRequest& request) { return serve::put(request); }

Result<std::string> remove_file(int source_fd, const std::string& source_path, const std::string& path) {
  return serve::remove(source_fd, source_path, path);
}

}  // namespace brevis
