// SPDX-License-Identifier: Apache-2.0
//
// volume.h over the rooms of this layer: tree (names), nodes (numbers), archives (indexes), fetch (bytes). Each keeps
// its own lock, none is held while another room is called.
#include "brevis/volume.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/io_tree.h"
#include "base/threads.h"
#include "brevis/log.h"
#include "cache/disk.h"
#include "cache/store.h"
#include "serve/archives.h"
#include "serve/base_files.h"
#include "serve/fetch.h"
#include "serve/files.h"
#include "serve/nodes.h"
#include "serve/tree.h"

namespace brevis {

size_t ReadResult::bytes() const {
  size_t sum = 0;
  for (const ByteSpan& part : parts) sum += part.size();
  return sum;
}

namespace serve {
namespace {

// Workers mostly wait for storage: more of them than cores.
constexpr unsigned kSpareWorkers = 6;
// Above every archive's number, so that both may name sources of one scheduler.
constexpr uint64_t kPlainNumbers = uint64_t{1} << 63;

Error stale(const std::string& path) {
  return Error::from_errno(ESTALE, "'" + path + "' is not what it was when its name was looked up");
}

std::string join(const std::string& directory, std::string_view name) {
  return directory.empty() ? std::string(name) : directory + "/" + std::string(name);
}

// packed / original with four decimals, in integers.
std::string ratio_text(uint64_t packed, uint64_t original) {
  if (original == 0) return "1.0000";
  const auto scaled = static_cast<uint64_t>((static_cast<unsigned __int128>(packed) * 10000 + original / 2) / original);
  std::string decimals = std::to_string(scaled % 10000);
  decimals.insert(0, 4 - decimals.size(), '0');
  return std::to_string(scaled / 10000) + "." + decimals;
}

class TreeVolume final : public Volume {
 public:
  TreeVolume(const VolumeOptions& options, Backing root, std::shared_ptr<cache::Store> store,
             std::unique_ptr<cache::Disk> disk)
      : tree_(options.source_fd, options.source_path, options.show_archives),
        nodes_(std::move(root)),
        store_(std::move(store)),
        archives_(store_),
        fetch_(store_, std::move(disk),
               {options.jobs != 0 ? options.jobs : available_cores() + kSpareWorkers, options.readahead}) {}

  // Errors: of opening one of the directories.
  Status look_for_bases_in(const std::vector<std::string>& directories) {
    BREVIS_ASSIGN(bases_, BaseFiles::open(tree_, directories));
    archives_.set_find_bases([this](const OpenArchive& archive, const archive::Reader& reader) {
      return bases_->bases_of(archives_, archive, reader);
    });
    return {};
  }

  Result<NodeAttr> lookup(NodeId parent, std::string_view name) override {
    BREVIS_ASSIGN(const NodePtr directory, directory_of(parent));
    if (parent == kRootNode && name == kRawName) {
      Backing root;
      BREVIS_ASSIGN(root.stat, stat_at(tree_.source_fd(), ".", false));
      return nodes_.enter(View::raw, "", std::move(root))->attr();
    }
    BREVIS_ASSIGN(Backing backing, tree_.find(directory->backing.path, directory->view, name));
    return nodes_.enter(directory->view, join(directory->path, name), std::move(backing))->attr();
  }

  void forget(NodeId node, uint64_t n) override { nodes_.forget(node, n); }

  Result<NodeAttr> attributes(NodeId id) override {
    BREVIS_ASSIGN(NodePtr node, nodes_.find(id));
    const Result<FileStat> now = tree_.look_again(node->backing);
    if (now && same_thing(node->backing, *now)) {
      if (NodePtr fresh = nodes_.refresh(id, *now)) node = std::move(fresh);
      return node->attr();
    }
    // Whoever has it open keeps his version, as with any file that was replaced or removed.
    if (!node->in_use.expired()) return node->attr();
    if (now) return stale(node->path);
    return now.error();
  }

  Result<std::vector<VolumeEntry>> list(NodeId id) override {
    BREVIS_ASSIGN(const NodePtr directory, directory_of(id));
    BREVIS_ASSIGN(const std::vector<Listed> listed, tree_.list(directory->backing.path, directory->view));
    std::vector<VolumeEntry> entries;
    entries.reserve(listed.size());
    for (const Listed& entry : listed)
      entries.push_back({entry.name, inode_number(entry.backing, directory->view), entry.backing.stat.mode & S_IFMT});
    return entries;
  }

  Result<std::string> link_target(NodeId id) override {
    BREVIS_ASSIGN(const NodePtr node, nodes_.find(id));
    if (!node->backing.stat.is_symlink()) return make_error(Errc::invalid_argument, node->path + " is no link");
    return tree_.link_target(node->backing);
  }

  Result<std::shared_ptr<FileHandle>> open_file(NodeId id) override {
    BREVIS_ASSIGN(Opening opening, begin_open(id));
    if (opening.archive && !opening.archive->reader()) {
      if (auto loaded = opening.archive->load(); !loaded) return std::move(loaded).error();
    }
    return handle_of(opening);
  }

  void open_file_then(NodeId id, OpenDone done) override {
    Result<Opening> opening = begin_open(id);
    if (!opening) return done(std::move(opening).error());
    if (!opening->archive) return done(handle_of(*opening));
    const std::shared_ptr<OpenArchive> archive = opening->archive;
    fetch_.load(archive, [this, opened = std::move(*opening), done = std::move(done)](Result<ReaderPtr> reader) {
      done(reader ? handle_of(opened) : Result<std::shared_ptr<FileHandle>>(std::move(reader).error()));
    });
  }

  void read(const std::shared_ptr<FileHandle>& file, Range range, ReadDone done, bool direct) override {
    if (file->archive) return fetch_.read(file->archive, range, {file->attr.id, file, !direct}, std::move(done));
    fetch_.read(file->plain, range, std::move(done));
  }

  void start_pushing(PushSink sink) override { fetch_.start_pushing(std::move(sink)); }
  bool stop_pushing(std::chrono::milliseconds limit) override { return fetch_.stop_pushing(limit); }

  NodeAttr handle_attributes(const FileHandle& file) override {
    if (file.archive) return file.attr;
    Node node;
    node.id = file.attr.id;
    if (const auto now = file.plain->file.stat()) {
      node.backing.stat = *now;
      NodeAttr attr = node.attr();
      attr.inode = file.attr.inode;
      return attr;
    }
    return file.attr;
  }

  Result<std::vector<std::string>> attribute_names(NodeId id) override {
    BREVIS_ASSIGN(const NodePtr node, nodes_.find(id));
    std::vector<std::string> names;
    if (!node->backing.is_archive) return names;
    // sha256 is in the index, which a mere list of names must not read: it is listed, and missing when asked for in
    // the rare archive that was packed without.
    for (const std::string_view name : kAttributes) names.emplace_back(name);
    return names;
  }

  Result<std::string> attribute(NodeId id, std::string_view name) override {
    BREVIS_ASSIGN(const NodePtr node, nodes_.find(id));
    const Backing& backing = node->backing;
    if (backing.is_archive) {
      if (name == kAttributes[0]) return backing.path;
      if (name == kAttributes[1]) return std::to_string(backing.header.version);
      if (name == kAttributes[2]) return ratio_text(backing.stat.size, backing.header.original_size);
      if (name == kAttributes[3]) {
        BREVIS_ASSIGN(const auto handle, open_file(id));
        ReaderPtr reader = handle->archive->reader();
        if (!reader) {
          BREVIS_ASSIGN(reader, handle->archive->load());
        }
        if (const auto& sha256 = reader->manifest().sha256) return to_hex(ByteSpan(*sha256));
      }
    }
    return make_error(Errc::not_found, node->path + " has no attribute " + std::string(name));
  }

  Result<Space> space() override {
    BREVIS_ASSIGN(const FileSystemSpace found, space_of(tree_.source_fd(), tree_.full_path("")));
    return Space{found.block_size,       found.blocks, found.free_blocks,
                 found.available_blocks, found.files,  found.free_files};
  }

  std::vector<NodeId> known_directories(const std::string& path) override {
    std::vector<NodeId> found;
    if (path.empty()) found.push_back(kRootNode);
    Backing backing;
    backing.path = path;
    const auto now = tree_.look_again(backing);
    if (!now || !now->is_directory()) return found;
    for (const View view : {View::shown, View::raw})
      if (const auto id = nodes_.known_directory(view, path, *now)) found.push_back(*id);
    return found;
  }

  void close_removed() override { archives_.forget_removed(); }

  VolumeCounters counters() const override {
    VolumeCounters out;
    fetch_.count(out);
    out.index_bytes = archives_.index_bytes();
    out.open_files = *open_files_;
    out.open_archives = archives_.open_archives();
    return out;
  }

  void rescan() override {
    tree_.rescan();
    bases_->rescan();
  }

 private:
  static constexpr std::array<std::string_view, 4> kAttributes = {"user.brevis.archive", "user.brevis.format",
                                                                  "user.brevis.ratio", "user.brevis.sha256"};

  // What stands between a node and its handle.
  struct Opening {
    NodeAttr attr;
    std::shared_ptr<const void> in_use;
    std::shared_ptr<OpenArchive> archive;
    std::shared_ptr<const PlainFile> plain;
  };

  Result<NodePtr> directory_of(NodeId id) const {
    BREVIS_ASSIGN(NodePtr node, nodes_.find(id));
    if (!node->is_directory()) return Error::from_errno(ENOTDIR, "'" + node->path + "'");
    return node;
  }

  Result<Opening> begin_open(NodeId id) {
    BREVIS_ASSIGN(const NodePtr node, nodes_.find(id));
    const Backing& backing = node->backing;
    if (!backing.stat.is_regular())
      return Error::from_errno(backing.stat.is_directory() ? EISDIR : EINVAL, "opening '" + node->path + "'");
    Opening opening;
    opening.in_use = nodes_.hold(id);
    opening.attr = node->attr();
    const auto now = tree_.look_again(backing);
    if (!now && now.error().kind() != Errc::not_found) return now.error();
    const bool current = now && same_thing(backing, *now);
    if (backing.is_archive) {
      opening.archive = archives_.find(Version::of(backing.stat));
      // Gone from its name, but somebody has it open: the node still stands for it.
      if (opening.archive && (current || !node->in_use.expired())) return opening;
    }
    if (!now) return now.error();
    if (!current) return stale(node->path);
    BREVIS_ASSIGN(File file, tree_.open(backing));
    BREVIS_ASSIGN(const FileStat opened, file.stat());
    if (!same_thing(backing, opened)) return stale(node->path);
    if (backing.is_archive) {
      opening.archive = archives_.adopt(backing, std::move(file));
      archives_.remember(opening.archive);
      return opening;
    }
    const uint64_t number = kPlainNumbers + plain_number_.fetch_add(1, std::memory_order_relaxed);
    opening.plain = std::make_shared<PlainFile>(PlainFile{std::move(file), number, opened.device, opened.size});
    return opening;
  }

  Result<std::shared_ptr<FileHandle>> handle_of(const Opening& opening) const {
    auto handle = std::make_shared<FileHandle>(opening.attr, opening.in_use, open_files_);
    handle->archive = opening.archive;
    handle->plain = opening.plain;
    return handle;
  }

  Tree tree_;
  std::unique_ptr<BaseFiles> bases_;
  Nodes nodes_;
  const std::shared_ptr<std::atomic<uint64_t>> open_files_ = std::make_shared<std::atomic<uint64_t>>(0);
  std::atomic<uint64_t> plain_number_{0};
  const std::shared_ptr<cache::Store> store_;
  Archives archives_;
  Fetch fetch_;  // last: its end waits for reads that use the rest
};

// The cache on disk, or none. It serves nobody's life that it cannot be opened, unless the user must change something.
Result<std::unique_ptr<cache::Disk>> open_disk(const VolumeOptions& options,
                                               const std::shared_ptr<cache::Store>& store) {
  std::unique_ptr<cache::Disk> none;
  if (options.cache_dir.empty()) return none;
  cache::DiskOptions disk;
  disk.directory = options.cache_dir;
  disk.size = options.cache_size;
  disk.admission = options.cache_always ? cache::Admission::always : cache::Admission::automatic;
  disk.queue_bytes = std::clamp<uint64_t>(options.memory / 8, uint64_t{4} << 20, uint64_t{32} << 20);
  disk.charge = [store](int64_t bytes) { store->charge(bytes); };
  auto opened = cache::Disk::open(disk);
  if (opened || opened.error().kind() == Errc::busy || opened.error().kind() == Errc::invalid_argument) return opened;
  log(LogLevel::warning, "serving without a cache on disk", {{"cause", opened.error().message()}});
  return none;
}

}  // namespace
}  // namespace serve

Result<std::unique_ptr<Volume>> Volume::open(const VolumeOptions& options) {
  if (options.source_fd < 0) return make_error(Errc::invalid_argument, "a volume needs its source directory open");
  serve::Backing root;
  BREVIS_ASSIGN(root.stat, stat_at(options.source_fd, ".", false));
  if (!root.stat.is_directory())
    return make_error(Errc::invalid_argument, "'" + options.source_path + "' is no directory");
  auto store = std::make_shared<cache::Store>(options.memory);
  // Before there are threads: its index is used in child processes.
  BREVIS_ASSIGN(std::unique_ptr<cache::Disk> disk, serve::open_disk(options, store));
  auto volume = std::make_unique<serve::TreeVolume>(options, std::move(root), std::move(store), std::move(disk));
  BREVIS_TRY(volume->look_for_bases_in(options.base_paths));
  return std::unique_ptr<Volume>(std::move(volume));
}

}  // namespace brevis
