// SPDX-License-Identifier: Apache-2.0
#include "pack/lookahead.h"

#include <algorithm>
#include <utility>

namespace brevis::pack {
namespace {

constexpr size_t kMostAhead = 8;            // streams
constexpr uint64_t kBytesAhead = 4u << 20;  // of them, or one: what is read too soon is cold when its turn comes
constexpr uint64_t kDriftParts = 4;         // parts of a long stream whose statistics are kept apart
constexpr uint64_t kDriftFromPieces = 4;    // shorter streams have one table

}  // namespace

ScanParts::ScanParts(uint64_t pieces, unsigned width)
    : pieces_(pieces), apart_(width <= 16 && pieces >= kDriftFromPieces) {
  if (apart_) scan_.parts.resize(kDriftParts);
}

void ScanParts::add(const synth::StreamStats& piece) {
  synth::append(apart_ ? scan_.parts[seen_ * kDriftParts / pieces_] : scan_.stats, piece);
  ++seen_;
}

Scan ScanParts::take() {
  for (const synth::StreamStats& part : scan_.parts) synth::append(scan_.stats, part);
  return std::move(scan_);
}

LookAhead::LookAhead(const Source& source, Pool& pool, const std::vector<RecordPlan>& plans, uint64_t longest,
                     std::function<Foresee(const RecordPlan&)> foresee)
    : source_(&source), pool_(&pool), plans_(&plans), longest_(longest), foresee_(std::move(foresee)) {
  start_more();
}

LookAhead::~LookAhead() {
  stop_ = true;
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return running_ == 0; });
}

void LookAhead::start_more() {
  while (started_ < plans_->size() && looks_.size() < kMostAhead) {
    const RecordPlan& plan = (*plans_)[started_];
    const uint64_t bytes = plan.bytes();
    if (!looks_.empty() && bytes <= longest_ && bytes_ + bytes > kBytesAhead) return;
    ++started_;
    start(plan);
  }
}

void LookAhead::start(const RecordPlan& plan) {
  std::vector<Range> spans;
  for (const Member& member : plan.members) spans.push_back(member.span);
  Look& at = looks_.emplace_back();
  at.plan = &plan;
  at.looked.bytes = std::make_shared<SpanStream>(*source_, std::move(spans));
  const uint64_t bytes = at.bytes = at.looked.bytes->bytes();
  if (bytes == 0 || bytes > longest_) return;
  at.done = false;
  if (foresee_) at.foresee = foresee_(plan);
  bytes_ += bytes;
  at.all = std::make_unique_for_overwrite<uint8_t[]>(bytes);
  const size_t pieces = static_cast<size_t>((bytes + kScanBytes - 1) / kScanBytes);
  at.pieces.resize(pieces);
  at.parts.emplace(pieces, plan.width());
  {
    const std::lock_guard lock(mutex_);
    running_ += pieces;
  }
  for (size_t piece = 0; piece < pieces; ++piece)
    pool_->post([this, &at, piece] {
      if (!stop_) look(at, piece);
      const std::lock_guard lock(mutex_);
      --running_;
      done_.notify_all();
    });
}

Status LookAhead::read_and_count(Look& at, size_t piece) const {
  const uint64_t offset = piece * kScanBytes;
  const MutByteSpan bytes(at.all.get() + offset, std::min(kScanBytes, at.bytes - offset));
  BREVIS_TRY(at.looked.bytes->read(offset, bytes));
  const unsigned width = at.plan->width();
  at.pieces[piece].stats = synth::gather({bytes.data(), bytes.size() / (width / 8), static_cast<uint8_t>(width)});
  return {};
}

void LookAhead::look(Look& at, size_t piece) {
  Status outcome = caught([&] { return read_and_count(at, piece); });
  std::unique_lock lock(mutex_);
  if (!outcome && at.outcome) at.outcome = std::move(outcome);
  at.pieces[piece].there = true;
  if (at.joining) return;
  // While it is still in the cache.
  at.joining = true;
  while (at.next < at.pieces.size() && at.pieces[at.next].there) {
    const size_t next = at.next;
    const bool good = at.outcome.has_value();
    lock.unlock();
    Status joined;
    if (good) joined = caught([&] { return join(at, next); });
    lock.lock();
    if (!joined && at.outcome) at.outcome = std::move(joined);
    ++at.next;
  }
  if (at.next == at.pieces.size()) {
    const bool good = at.outcome.has_value();
    lock.unlock();
    Status finished;
    if (good) finished = caught([&] { return finish(at); });
    lock.lock();
    if (!finished) at.outcome = std::move(finished);
    at.done = true;
  }
  at.joining = false;
}

Status LookAhead::join(Look& at, size_t piece) {
  const uint64_t offset = piece * kScanBytes;
  at.hasher.update({at.all.get() + offset, std::min(kScanBytes, at.bytes - offset)});
  at.parts->add(std::exchange(at.pieces[piece].stats, {}));
  return {};
}

Status LookAhead::finish(Look& at) {
  Scan scan = at.parts->take();
  scan.digest = at.hasher.digest();
  at.looked.scan = std::make_shared<const Scan>(std::move(scan));
  at.looked.bytes->hold(std::move(at.all));
  if (!at.foresee) return {};
  const uint64_t start = thread_cpu_ns();
  at.looked.foreseen = at.foresee(*at.looked.bytes, *at.looked.scan);
  at.looked.foresee_seconds = static_cast<double>(thread_cpu_ns() - start) * 1e-9;
  return {};
}

Result<LookAhead::Looked> LookAhead::next() {
  Look& first = looks_.front();
  {
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return first.done; });
  }
  const Status outcome = std::move(first.outcome);
  Looked looked = std::move(first.looked);
  if (first.parts) bytes_ -= first.bytes;
  looks_.pop_front();
  BREVIS_TRY(outcome);
  start_more();
  return looked;
}

}  // namespace brevis::pack
