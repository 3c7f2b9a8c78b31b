// SPDX-License-Identifier: Apache-2.0
#include "serve/nodes.h"

#include <sys/stat.h>

namespace brevis::serve {

NodeAttr Node::attr() const {
  const FileStat& stat = backing.stat;
  NodeAttr attr;
  attr.id = id;
  attr.inode = id == kRootNode ? kRootNode : inode_number(backing, view);
  attr.size = backing.is_archive ? backing.header.original_size : stat.size;
  // Zero blocks would make cp believe in holes.
  attr.blocks = backing.is_archive ? (attr.size + 511) / 512 : stat.blocks;
  attr.mtime_ns = stat.mtime_ns;
  attr.ctime_ns = stat.ctime_ns;
  attr.atime_ns = stat.atime_ns;
  attr.mode = stat.mode;
  attr.uid = stat.uid;
  attr.gid = stat.gid;
  attr.links = backing.is_archive ? 1 : stat.links;
  return attr;
}

bool same_thing(const Backing& backing, const FileStat& now) {
  const FileStat& then = backing.stat;
  if (backing.is_archive) return now.is_regular() && Version::of(then) == Version::of(now);
  return then.device == now.device && then.inode == now.inode && (then.mode & S_IFMT) == (now.mode & S_IFMT);
}

size_t Nodes::NameHash::operator()(const Name& name) const {
  return std::hash<std::string>()(name.path) ^ VersionHash()(name.version) ^ static_cast<size_t>(name.view);
}

Nodes::Name Nodes::name_of(const Node& node) {
  Version version = Version::of(node.backing.stat);
  if (!node.backing.is_archive) version = {version.device, version.inode, 0, 0};
  // An archive's file never equals a plain one, even of the same inode.
  const uint32_t type = (node.backing.stat.mode & S_IFMT) | (node.backing.is_archive ? 1u : 0u);
  return {node.view, node.path, version, type};
}

Nodes::Nodes(Backing root) {
  auto node = std::make_shared<Node>();
  node->id = kRootNode;
  node->backing = std::move(root);
  table_.with([&](Table& table) { table.by_id[kRootNode] = {std::move(node), 1}; });
}

Result<NodePtr> Nodes::find(NodeId id) const {
  return table_.with([&](const Table& table) -> Result<NodePtr> {
    const auto found = table.by_id.find(id);
    if (found == table.by_id.end())
      return make_error(Errc::not_found, "node " + std::to_string(id) + " is not known (any more)");
    return found->second.node;
  });
}

NodePtr Nodes::replace(Slot& slot, Node changed) {
  slot.node = std::make_shared<const Node>(std::move(changed));
  return slot.node;
}

NodePtr Nodes::enter(View view, const std::string& path, Backing backing) {
  Node node;
  node.view = view;
  node.path = path;
  node.backing = std::move(backing);
  return table_.with([&](Table& table) {
    const auto [known, is_new] = table.by_name.try_emplace(name_of(node), table.last + 1);
    if (is_new) ++table.last;  // numbers are never used twice
    node.id = known->second;
    Slot& slot = table.by_id[node.id];
    ++slot.lookups;
    if (slot.node) node.in_use = slot.node->in_use;
    return replace(slot, std::move(node));
  });
}

void Nodes::forget(NodeId id, uint64_t n) {
  if (id == kRootNode) return;
  table_.with([&](Table& table) {
    const auto found = table.by_id.find(id);
    if (found == table.by_id.end()) return;
    Slot& slot = found->second;
    slot.lookups -= n < slot.lookups ? n : slot.lookups;
    if (slot.lookups != 0) return;
    table.by_name.erase(name_of(*slot.node));
    table.by_id.erase(found);
  });
}

std::optional<NodeId> Nodes::known_directory(View view, const std::string& path, const FileStat& stat) const {
  Node node;
  node.view = view;
  node.path = path;
  node.backing.stat = stat;
  const Name name = name_of(node);
  return table_.with([&](const Table& table) -> std::optional<NodeId> {
    const auto found = table.by_name.find(name);
    return found == table.by_name.end() ? std::nullopt : std::optional<NodeId>(found->second);
  });
}

NodePtr Nodes::refresh(NodeId id, const FileStat& stat) {
  return table_.with([&](Table& table) -> NodePtr {
    const auto found = table.by_id.find(id);
    if (found == table.by_id.end()) return nullptr;
    Node changed = *found->second.node;
    // Nothing of a node's name may change here: the caller asked same_thing() first, of what it saw then.
    if (id != kRootNode && !same_thing(changed.backing, stat)) return found->second.node;
    changed.backing.stat = stat;
    return replace(found->second, std::move(changed));
  });
}

std::shared_ptr<const void> Nodes::hold(NodeId id) {
  return table_.with([&](Table& table) -> std::shared_ptr<const void> {
    const auto found = table.by_id.find(id);
    if (found == table.by_id.end()) return nullptr;
    if (auto held = found->second.node->in_use.lock()) return held;
    auto token = std::make_shared<const char>('\0');
    Node changed = *found->second.node;
    changed.in_use = token;
    replace(found->second, std::move(changed));
    return token;
  });
}

size_t Nodes::size() const {
  return table_.with([](const Table& table) { return table.by_id.size(); });
}

}  // namespace brevis::serve
