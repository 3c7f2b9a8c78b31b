// SPDX-License-Identifier: Apache-2.0
//
// Archives that are packed against: which bytes of their originals are like a tensor (same dtype and shape, and the
// same name or words that are near to its own), and which are equal to a stream (same digest; the caller compares
// before he believes it).
//
// Errors:  of opening an archive or one it stands on; invalid_argument for one that stands on too many already.
// Threads: read() may be called from several threads; everything else from one at a time. Owns: open archives.
#pragma once

#include <map>
#include <memory>

#include "archive/bases.h"
#include "archive/layout.h"
#include "brevis/model.h"
#include "pack/likeness.h"
#include "pack/records.h"
#include "pack/source.h"

namespace brevis::pack {

class Bases {
 public:
  explicit Bases(std::vector<std::string> roots);
  Bases(const Bases&) = delete;

  // An archive, or every archive below a directory. `similar`: its tensors are likes; else only equals are looked for.
  Status add(const std::string& path, bool similar);
  bool empty() const { return archives_.empty(); }
  // Whether one of them, or of what they stand on, has the id.
  bool include(const Digest& id) const;
  // Of all ids, in the order in which they were added.
  Digest digest() const;

  // Where the tensor's like is. Those of its name and in a file of the source's name come first; `by_name`: no others
  // are looked for where there is one of its name.
  Result<std::optional<archive::BaseSpan>> like(const TensorInfo& tensor, const Source& source, bool by_name) const;
  // Streams of that digest and length.
  std::vector<archive::BaseSpan> equals(const Digest& digest, uint64_t bytes) const;
  // Bytes [offset, offset + out.size()) of spans put one after the other.
  Status read(const std::vector<archive::BaseSpan>& spans, uint64_t offset, MutByteSpan out) const;

  // Words of a frame of the tensor that takes the span, where that is one region of words of `width` bits and was
  // packed with frames of that many bytes.
  std::optional<uint64_t> frame_words(const archive::BaseSpan& span, unsigned width, uint64_t frame_bytes) const;

  // The base as an archive at `target` shall name it.
  archive::Base describe(uint32_t base, const std::string& target) const;
  const std::string& path(uint32_t base) const { return archives_[base].reader->file().path(); }

 private:
  struct Opened {
    std::shared_ptr<const archive::Reader> reader;
    std::unique_ptr<archive::RangeReaders> original;
  };
  Status add_archive(const std::string& path, bool similar);
  Status index(uint32_t number, bool similar);

  archive::DirectoryFinder finder_;
  std::vector<Opened> archives_;
  using Shape = std::tuple<std::string, Dtype, std::vector<uint64_t>, uint64_t>;  // and bytes
  std::map<Shape, std::vector<archive::BaseSpan>> by_name_;
  std::map<std::pair<Digest, uint64_t>, std::vector<archive::BaseSpan>> by_digest_;
  std::unique_ptr<Likeness> likeness_;
};

// Gives every plan of one tensor its like, and parts bundles into members that equal their like, members that have one,
// and the others. Reads small tensors. Errors: those of reading.
Status find_likes(const Bases& bases, const Source& source, const Verdict& verdict, std::vector<RecordPlan>& plans);

}  // namespace brevis::pack
