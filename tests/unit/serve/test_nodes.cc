// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <sys/stat.h>

#include "serve/nodes.h"

using namespace brevis;
using namespace brevis::serve;

namespace {

Backing backing(std::string path, uint64_t inode, bool is_archive = false, uint64_t size = 10) {
  Backing out;
  out.path = std::move(path);
  out.stat.device = 5;
  out.stat.inode = inode;
  out.stat.size = size;
  out.stat.blocks = 8;
  out.stat.mode = S_IFREG | 0640;
  out.is_archive = is_archive;
  out.header.original_size = 1000;
  return out;
}

Backing root() {
  Backing out;
  out.stat.mode = S_IFDIR | 0755;
  return out;
}

}  // namespace

TEST_CASE("looking up again gives the same node until it is forgotten as often") {
  Nodes nodes(root());
  const NodePtr first = nodes.enter(View::shown, "a", backing("a", 1));
  CHECK(nodes.enter(View::shown, "a", backing("a", 1))->id == first->id);
  CHECK(nodes.enter(View::raw, "a", backing("a", 1))->id != first->id);
  nodes.forget(first->id, 1);
  CHECK(nodes.find(first->id));
  nodes.forget(first->id, 1);
  CHECK(nodes.find(first->id).error().kind() == Errc::not_found);
  CHECK(nodes.enter(View::shown, "a", backing("a", 1))->id > first->id);  // numbers are not used again
  nodes.forget(12345, 1);
  nodes.forget(kRootNode, 100);
  CHECK(nodes.find(kRootNode));
}

TEST_CASE("another version of an archive is another node, a plain file written in place is not") {
  Nodes nodes(root());
  const NodePtr archive = nodes.enter(View::shown, "a", backing("a.brv", 1, true));
  const NodePtr next = nodes.enter(View::shown, "a", backing("a.brv", 1, true, 11));
  CHECK(next->id != archive->id);
  CHECK(next->attr().inode != archive->attr().inode);
  CHECK(archive->attr().size == 1000);
  CHECK(archive->attr().blocks == 2);
  CHECK(archive->attr().mode == (S_IFREG | 0640));

  const NodePtr plain = nodes.enter(View::shown, "b", backing("b", 2));
  const NodePtr grown = nodes.enter(View::shown, "b", backing("b", 2, false, 11));
  CHECK(plain->id == grown->id);
  CHECK(plain->attr().inode == grown->attr().inode);
  CHECK(grown->attr().size == 11);
  CHECK(grown->attr().blocks == 8);
  CHECK(nodes.enter(View::shown, "b", backing("b", 3))->id != plain->id);
}

TEST_CASE("the archive and the file it is shown as have different inode numbers") {
  const Backing shown = backing("a.brv", 1, true);
  CHECK(inode_number(shown, View::shown) != inode_number(backing("a.brv", 1), View::shown));
  CHECK(inode_number(backing("a", 1), View::shown) != inode_number(backing("a", 1), View::raw));
  CHECK(inode_number(backing("a", 1), View::shown) == inode_number(backing("b", 1), View::shown));  // hard links
}

TEST_CASE("a node knows whether somebody has it open") {
  Nodes nodes(root());
  const NodeId id = nodes.enter(View::shown, "a", backing("a", 1))->id;
  CHECK(nodes.find(id).value()->in_use.expired());
  {
    const auto first = nodes.hold(id), second = nodes.hold(id);
    CHECK_FALSE(nodes.find(id).value()->in_use.expired());
    nodes.enter(View::shown, "a", backing("a", 1));
    CHECK_FALSE(nodes.find(id).value()->in_use.expired());
  }
  CHECK(nodes.find(id).value()->in_use.expired());
  CHECK(nodes.hold(777) == nullptr);
}

TEST_CASE("fresh attributes do not turn a node into something else") {
  Nodes nodes(root());
  const NodeId id = nodes.enter(View::shown, "a", backing("a.brv", 1, true))->id;
  FileStat now = backing("a.brv", 1, true).stat;
  now.mode = S_IFREG | 0400;
  CHECK(nodes.refresh(id, now)->attr().mode == (S_IFREG | 0400));
  now.size = 99;
  CHECK(nodes.refresh(id, now)->backing.stat.size == 10);
  CHECK(nodes.refresh(4242, now) == nullptr);
}
