// SPDX-License-Identifier: Apache-2.0
//
// A source directory with archives in it and a Volume over it, and reads that wait for their answer.
//
// Errors:  failed checks end the test case. Threads: the Volume's; the rest one thread. Owns: the directory.
#pragma once

#include <memory>
#include <string>

#include "base/io.h"
#include "brevis/volume.h"
#include "support/temp_dir.h"

namespace brevis::test {

// Bytes of an archive that holds `original`; frames of `frame_bytes`.
ByteVector packed_bytes(ByteSpan original, uint64_t frame_bytes = 16384);

class ServedTree {
 public:
  ServedTree();
  std::string operator/(std::string_view name) const { return dir_ / (std::string("source/") + std::string(name)); }
  // NAME.brv with `original` in it; replaces by rename, as a packer does.
  void pack(const std::string& name, ByteSpan original, uint64_t frame_bytes = 16384);
  void put(const std::string& name, ByteSpan bytes) { write_file(*this / name, bytes); }
  void put(const std::string& name, std::string_view text) { write_file(*this / name, text); }

  // (Re)starts the volume.
  Volume& serve(VolumeOptions options = {});
  void stop() { volume_.reset(); }
  Volume& volume() { return *volume_; }

  // By path below the root; REQUIREs that it is there.
  NodeAttr look(std::string_view path);
  int look_errno(std::string_view path);  // 0: it is there
  std::vector<std::string> names(std::string_view path = "");
  std::shared_ptr<FileHandle> open(std::string_view path);
  ByteVector contents(std::string_view path);

 private:
  TempDir dir_;
  UniqueFd source_;
  std::unique_ptr<Volume> volume_;
};

// Waits for the answer. An Error, or the bytes in one piece.
Result<ByteVector> read_now(Volume& volume, const std::shared_ptr<FileHandle>& file, Range range, bool direct = false);
Result<NodeAttr> walk(Volume& volume, std::string_view path);

}  // namespace brevis::test
