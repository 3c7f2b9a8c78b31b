// SPDX-License-Identifier: Apache-2.0
//
// brevis add, replace, remove: changing the tree under a mount through its daemon, which alone still reaches a source
// that is mounted over itself.
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "command.h"
#include "commands.h"
#include "daemon.h"
#include "output.h"
#include "signals.h"
#include "sizes.h"

namespace brevis::tools {
namespace {

namespace stdfs = std::filesystem;

struct Item {
  std::string file;  // put: what is handed over
  std::string path;  // below the source
};

struct Outcome {
  Item item;
  uint64_t bytes = 0;
  std::optional<Error> error;
  int exit_code = kExitFine;
};

std::string joined(const std::string& directory, const std::string& name) {
  return directory.empty() ? name : directory + "/" + name;
}

// Names in the tree may be given as they are seen, below the mount's root.
std::string below_root(const std::string& root, std::string path) {
  if (path.starts_with(root + "/")) path.erase(0, root.size() + 1);
  while (path.starts_with("./")) path.erase(0, 2);
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Status add_items(const std::string& file, const std::string& directory, std::vector<Item>& items) {
  std::error_code failed;
  const stdfs::path path(file);
  const stdfs::file_status status = stdfs::status(path, failed);
  if (failed) return Error::from_errno(failed.value(), "'" + file + "'");
  stdfs::path name = path.filename();
  if (name.empty() || name == "." || name == "..")
    name = stdfs::absolute(path, failed).lexically_normal().parent_path().filename();
  if (!stdfs::is_directory(status)) {
    items.push_back({file, joined(directory, name.string())});
    return {};
  }
  std::vector<Item> found;
  for (stdfs::recursive_directory_iterator at(path, failed), end; !failed && at != end; at.increment(failed))
    if (at->is_regular_file(failed))
      found.push_back({at->path().string(), joined(directory, (name / at->path().lexically_relative(path)).string())});
  if (failed) return Error::from_errno(failed.value(), "listing '" + file + "'");
  std::sort(found.begin(), found.end(), [](const Item& a, const Item& b) { return a.path < b.path; });
  items.insert(items.end(), found.begin(), found.end());
  return {};
}

Outcome do_one(ControlClient& client, const Json& request, const Item& item, ProgressBar& bar) {
  Outcome outcome{item, 0, {}, kExitFine};
  const auto answer = ask_daemon(client, request, item.file, &bar);
  if (!answer) {
    outcome.error = answer.error();
    outcome.exit_code = answer.error().kind() == Errc::cancelled && signal_exit_code() != 0
                            ? signal_exit_code()
                            : to_exit_code(answer.error());
  } else if (answer->error) {
    outcome.error = answer->error;
    outcome.exit_code = answer->exit_code;
  } else {
    const auto bytes = answer->json.find("bytes");
    if (bytes != answer->json.end() && bytes->is_number_unsigned()) outcome.bytes = bytes->get<uint64_t>();
    const auto path = answer->json.find("path");
    if (path != answer->json.end() && path->is_string()) outcome.item.path = path->get<std::string>();
  }
  return outcome;
}

int tell(const std::vector<Outcome>& outcomes, const char* done, const CommandLine& line) {
  int code = kExitFine;
  uint64_t good = 0;
  Json files = Json::array();
  for (const Outcome& outcome : outcomes) {
    if (code == kExitFine) code = outcome.exit_code;
    Json one = {{"path", outcome.item.path}};
    if (outcome.error) {
      if (outcome.error->kind() != Errc::cancelled || signal_exit_code() == 0) print_error(outcome.error->message());
      one["error"] = json_error(*outcome.error);
    } else {
      ++good;
      if (!outcome.item.file.empty()) one["bytes"] = outcome.bytes;
      if (!line.json() && !line.quiet()) std::printf("%s %s\n", done, printable(outcome.item.path).c_str());
    }
    files.push_back(std::move(one));
  }
  if (line.json()) {
    Json document = json_document();
    document.update({{"files", std::move(files)}, {done, good}, {"exit_code", code}});
    print_json(document);
  }
  return code;
}

using Identity = std::optional<std::pair<dev_t, ino_t>>;

Identity identity_of(const std::string& file) {
  struct stat st {};
  if (::stat(file.c_str(), &st) != 0) return std::nullopt;
  return std::pair(st.st_dev, st.st_ino);
}

// After a move. A file that replaced itself is the tree's own by then, and the only one.
Status remove_given(const std::string& file, const Identity& given) {
  if (!given || identity_of(file) != given)
    return make_error(Errc::changed, "'" + file + "' is not the file that was put any more and is left as it is");
  std::error_code failed;
  if (!stdfs::remove(file, failed) && failed)
    return Error::from_errno(failed.value(), "'" + file + "' stands in the tree, but is not removed");
  return {};
}

int put(const char* program, const char* summary, bool replace, int argc, char** argv) {
  CommandLine line(program, "[options] MOUNT FILE...", summary);
  std::string mount, directory;
  std::vector<std::string> files;
  bool move = false;
  line.app().add_option("mount", mount, "the mount")->required();
  line.app().add_option("file", files, "files, and directories with all in them")->required();
  line.app().add_option("--to", directory, "directory of the tree (default: its top)")->type_name("DIR");
  line.app().add_flag("--move", move, "remove each FILE once it stands in the tree");
  line.add_json();
  line.add_progress();
  if (const auto code = line.parse(argc, argv)) return *code;
  auto client = ControlClient::connect(mount, stop_requested);
  if (!client) return report(client.error(), line.json());
  std::vector<Item> items;
  const std::string to = below_root(client->place(), directory);
  for (const std::string& file : files)
    if (const Status added = add_items(file, to, items); !added) return report(added.error(), line.json());
  ProgressBar bar(line.progress(), line.quiet());
  std::vector<Outcome> outcomes;
  for (const Item& item : items) {
    const Json request = {{"command", "put"}, {"path", item.path}, {"replace", replace}};
    const auto given = identity_of(item.file);
    outcomes.push_back(do_one(*client, request, item, bar));
    if (stop_requested()) break;
    if (!move || outcomes.back().error) continue;
    if (Status removed = remove_given(item.file, given); !removed) {
      outcomes.back().error = std::move(removed).error();
      outcomes.back().exit_code = to_exit_code(*outcomes.back().error);
    }
  }
  bar.clear();
  return tell(outcomes, replace ? "replaced" : "added", line);
}

}  // namespace

int cmd_add(int argc, char** argv) {
  return put("brevis add",
             "Adds archives, or other files, to the tree under MOUNT, also where it is mounted over itself: the daemon "
             "copies each beside its place and renames it when it is whole. What exists is left alone.",
             false, argc, argv);
}

int cmd_replace(int argc, char** argv) {
  return put(
      "brevis replace",
      "Replaces archives, or other files, in the tree under MOUNT by those of the same name. Who has the old one "
      "open keeps its bytes.",
      true, argc, argv);
}

int cmd_remove(int argc, char** argv) {
  CommandLine line("brevis remove", "[options] MOUNT NAME...",
                   "Removes files from the tree under MOUNT, by the names that readers see: for NAME its archive "
                   "NAME.brv. Who has one open keeps its bytes.");
  std::string mount;
  std::vector<std::string> names;
  line.app().add_option("mount", mount, "the mount")->required();
  line.app().add_option("name", names, "names below the mount, as they are seen there")->required();
  line.add_json();
  if (const auto code = line.parse(argc, argv)) return *code;
  auto client = ControlClient::connect(mount, stop_requested);
  if (!client) return report(client.error(), line.json());
  ProgressBar bar(ProgressMode::never, true);
  std::vector<Outcome> outcomes;
  for (const std::string& name : names) {
    const Item item{"", below_root(client->place(), name)};
    outcomes.push_back(do_one(*client, {{"command", "remove"}, {"path", item.path}}, item, bar));
    if (stop_requested()) break;
  }
  return tell(outcomes, "removed", line);
}

}  // namespace brevis::tools
