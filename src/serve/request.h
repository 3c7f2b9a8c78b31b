// SPDX-License-Identifier: Apache-2.0
//
// One read under way: what it is made of, how far it is, and the reply so far.
//
// Errors:  plan() as plan_file. Threads: in the hands of one thread at a time; flights, queues and workers pass it on.
// Owns:    the blocks of its reply.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "archive/layout.h"
#include "brevis/volume.h"
#include "cache/store.h"
#include "serve/archives.h"
#include "serve/base_reads.h"
#include "serve/files.h"
#include "serve/frames.h"

namespace brevis::serve {

struct Request {
  std::shared_ptr<OpenArchive> archive;  // one of the two
  std::shared_ptr<const PlainFile> plain;
  Range range;
  ReadDone done;
  bool to_page_cache = true;  // the kernel keeps what it gets, so that nobody will come back for it
  bool of_reader = true;      // else our own, to be pushed

  // Archives:
  ReaderPtr reader;
  std::vector<archive::FilePiece> pieces;
  size_t next = 0;                                 // piece to do
  std::optional<Result<cache::BlockPtr>> arrived;  // of the frame it waited for
  std::optional<BaseReads> bases;                  // of the piece at hand, while they are read
  std::optional<Result<ReadResult>> base_arrived;  // what `child` gave
  std::shared_ptr<Request> parent;                 // waits for this one, which reads a base for it
  bool joined = false;                             // a flight that somebody else leads
  bool leads = false;                              // a flight, for the piece at hand
  Frames::Company company;                         // decoded beside an earlier frame, till their turn
  uint64_t fill_bytes = 0, fill_used = 0;
  bool is_flat = false;  // the reply is gathered in `gathered`; else that holds the fills only
  std::shared_ptr<cache::Block> gathered;

  uint64_t cost = 0;  // memory it holds at most, for admission
  bool admitted = false;
  ReadResult reply;
  std::shared_ptr<Request> following;  // in a Ready

  uint64_t source() const { return archive ? archive->number() : plain->number; }
  uint64_t device() const { return archive ? archive->backing().stat.device : plain->device; }
  const std::string& path() const { return archive ? archive->path() : plain->file.path(); }

  // Fills pieces, fill_bytes, is_flat, cost.
  Status plan();
  // Does a piece that needs no frame; puts a frame's part in its place.
  void compute(const archive::FilePiece& piece, cache::Store& store);
  void place(const archive::FilePiece& piece, const cache::BlockPtr& block, cache::Store& store);
  // The bytes of a base piece.
  void place_base(const archive::FilePiece& piece, std::vector<ReadResult> results, cache::Store& store);
  void append(ByteSpan part, std::shared_ptr<const void> owner);

 private:
  uint8_t* gather(cache::Store& store);
};
using RequestPtr = std::shared_ptr<Request>;

// Of a read of that file. Where there is no memory for the text either, an error without it.
Error out_of_memory(const std::string& path) noexcept;

// Requests that can go on, in order, each in one list at a time. Linking them takes no memory, so that nobody is
// forgotten where there is none.
class Ready {
 public:
  bool empty() const { return first_ == nullptr; }
  void push_back(RequestPtr request) {
    Request* added = request.get();
    (last_ == nullptr ? first_ : last_->following) = std::move(request);
    last_ = added;
  }
  RequestPtr pop_front() {
    RequestPtr request = std::move(first_);
    first_ = std::move(request->following);
    if (first_ == nullptr) last_ = nullptr;
    return request;
  }

 private:
  RequestPtr first_;
  Request* last_ = nullptr;
};

}  // namespace brevis::serve
