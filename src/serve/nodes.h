// SPDX-License-Identifier: Apache-2.0
//
// The table of nodes: numbers that the kernel knows for what it looked up, each with its count of lookups and what
// stood behind the name then. A node is one version of an archive, or one plain file, directory or link at a path:
// when another version appears under the name it gets a node of its own, so that pages of the old one, cached by the
// kernel under the old number, are never shown as the new one's.
//
// Errors:  not_found for numbers never given out or forgotten.
// Threads: any. Owns: the nodes; what it returns is a snapshot and stays valid.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>

#include "base/threads.h"
#include "brevis/volume.h"
#include "serve/tree.h"

namespace brevis::serve {

struct Node {
  NodeId id = 0;
  View view = View::shown;
  std::string path;  // as shown, below the root of its view
  Backing backing;
  // Alive while somebody has the node open.
  std::weak_ptr<const void> in_use;

  bool is_directory() const { return backing.stat.is_directory(); }
  NodeAttr attr() const;
};
using NodePtr = std::shared_ptr<const Node>;

class Nodes {
 public:
  // `root`: what stands behind kRootNode.
  explicit Nodes(Backing root);

  Result<NodePtr> find(NodeId id) const;
  // The node of what was found under a name, with one more reference to it.
  NodePtr enter(View view, const std::string& path, Backing backing);
  void forget(NodeId id, uint64_t n);
  // The node of a directory, if the kernel knows it.
  std::optional<NodeId> known_directory(View view, const std::string& path, const FileStat& stat) const;
  // Newer attributes of the same thing.
  NodePtr refresh(NodeId id, const FileStat& stat);
  // Held by an open file for as long as it is open. Errors: not_found.
  std::shared_ptr<const void> hold(NodeId id);
  size_t size() const;

 private:
  struct Name {  // what makes a node the same as one that was given out before
    View view;
    std::string path;
    Version version;  // archives; else only device and inode
    uint32_t type;
    friend bool operator==(const Name&, const Name&) = default;
  };
  struct NameHash {
    size_t operator()(const Name& name) const;
  };
  struct Slot {
    NodePtr node;
    uint64_t lookups = 0;
  };
  struct Table {
    std::unordered_map<NodeId, Slot> by_id;
    std::unordered_map<Name, NodeId, NameHash> by_name;
    NodeId last = kRootNode;
  };
  static Name name_of(const Node& node);
  static NodePtr replace(Slot& slot, Node changed);

  Guarded<Table> table_;
};

// Whether a file looked at later is still what the node stands for.
bool same_thing(const Backing& backing, const FileStat& now);

}  // namespace brevis::serve
