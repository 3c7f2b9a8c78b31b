// SPDX-License-Identifier: Apache-2.0
#include "serve/pusher.h"

#include <algorithm>
#include <optional>

#include "base/memory.h"
#include "brevis/log.h"

namespace brevis::serve {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kBlock = uint64_t{4} << 20;
constexpr uint64_t kPiece = uint64_t{1} << 20;
constexpr uint64_t kHole = uint64_t{64} << 10;
// So near to the reader nothing is pushed: requests for it may be under way.
constexpr uint64_t kLead = uint64_t{512} << 10;
constexpr size_t kMaxJobs = 256, kMaxStores = 4;
// Less than this, or than a twentieth of all: the kernel is left alone.
constexpr uint64_t kLeastMemory = uint64_t{128} << 20;
constexpr std::chrono::milliseconds kLookEvery{100};

// Pieces of whole pages, in the order in which the reader will come, none across a hole.
std::vector<Range> pieces_of(Range range, uint64_t file_size, bool falling) {
  std::vector<Range> out;
  uint64_t at = (range.offset + kPage - 1) / kPage * kPage;
  const uint64_t end = range.end() >= file_size ? file_size : range.end() / kPage * kPage;
  while (at < end) {
    const uint64_t block = at / kBlock * kBlock;
    const uint64_t hole = falling ? block + kBlock - kHole : block;
    if (at >= hole && at < hole + kHole) {
      at = hole + kHole;
      continue;
    }
    uint64_t stop = std::min(end, (at / kPiece + 1) * kPiece);
    if (hole > at) stop = std::min(stop, hole);
    out.push_back({at, stop - at});
    at = stop;
  }
  if (falling) std::reverse(out.begin(), out.end());
  return out;
}

bool near_to_reader(const Pusher::Job& job) {
  const uint64_t position = job.position ? job.position->load(std::memory_order_relaxed) : 0;
  return job.falling ? job.range.end() + kLead > position : job.range.offset < position + kLead;
}

}  // namespace

Pusher::Pusher(unsigned threads, Read read) : count_(threads), read_(std::move(read)) {}

void Pusher::start(PushSink sink) {
  const std::lock_guard lock(mutex_);
  if (started_ || stopping_) return;
  sink_ = std::move(sink);
  try {
    for (unsigned i = 0; i < count_; ++i) {
      threads_.emplace_back([this] { run(); });
      ++running_;
    }
  } catch (const std::system_error& e) {
    log(LogLevel::warning, std::string("cannot start a thread for pushing: ") + e.what());
  }
  started_ = running_ > 0;
}

bool Pusher::stop(std::chrono::milliseconds limit) {
  std::deque<Job> given_up;  // before the lock: what they hold dies after it
  std::unique_lock lock(mutex_);
  stopping_ = true;
  given_up.swap(jobs_);
  wake_.notify_all();
  const auto all_ended = [&] { return running_ == 0 && reading_ == 0; };
  if (limit == std::chrono::milliseconds::max())
    ended_.wait(lock, all_ended);
  else if (!ended_.wait_for(lock, limit, all_ended))
    return false;
  lock.unlock();
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  stores_.clear();
  return true;
}

bool Pusher::memory_is_short() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_at_ < kLookEvery) return short_of_memory_;
  looked_at_ = now;
  const MemoryState memory = memory_state();
  short_of_memory_ = memory.available < std::max(kLeastMemory, memory.total / 20);
  return short_of_memory_;
}

bool Pusher::push(Job job) {
  const std::vector<Range> pieces = pieces_of(job.range, job.file_size, job.falling);
  const std::lock_guard lock(mutex_);
  if (!started_ || stopping_ || memory_is_short()) return false;
  for (const Range& piece : pieces) {
    if (jobs_.size() >= kMaxJobs) break;
    Job one = job;
    one.range = piece;
    jobs_.push_back(std::move(one));
    wake_.notify_one();
  }
  return true;
}

void Pusher::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] {
      return stopping_ || !stores_.empty() || (!jobs_.empty() && stores_.size() + reading_ < kMaxStores);
    });
    if (stopping_) break;
    if (!stores_.empty()) {
      const Store next = std::move(stores_.front());
      stores_.pop_front();
      lock.unlock();
      store(next);
    } else {
      const Job next = std::move(jobs_.front());
      jobs_.pop_front();
      const bool wanted = !next.open.expired() && !near_to_reader(next);
      reading_ += wanted;
      lock.unlock();
      if (wanted) begin(next);
    }
    lock.lock();
  }
  if (--running_ == 0) ended_.notify_all();
}

// Reads a piece, and stores it at once, while the bytes are warm, when they came right here; else a worker brings them.
void Pusher::begin(const Job& piece) {
  struct Here {
    std::thread::id thread = std::this_thread::get_id();  // none once read_() has returned
    std::optional<Store> store;
  };
  const auto here = std::make_shared<Here>();
  const auto arrived = [this, here, node = piece.node, at = piece.range.offset,
                        open = piece.open](Result<ReadResult> bytes) {
    const std::lock_guard lock(mutex_);
    --reading_;
    if (stopping_) ended_.notify_all();
    if (!bytes || stopping_) return;
    Store store{node, at, open, std::move(*bytes)};
    if (here->thread == std::this_thread::get_id()) {
      here->store = std::move(store);
    } else {
      stores_.push_back(std::move(store));
      wake_.notify_one();
    }
  };
  read_(piece.archive, piece.range, arrived);
  std::optional<Store> ready;
  {
    const std::lock_guard lock(mutex_);
    here->thread = {};
    ready.swap(here->store);
  }
  if (ready) store(*ready);
}

void Pusher::store(const Store& store) {
  if (store.open.expired()) return;
  if (sink_(store.node, store.offset, store.bytes)) {
    pushes_.fetch_add(1, std::memory_order_relaxed);
    bytes_.fetch_add(store.bytes.bytes(), std::memory_order_relaxed);
  } else {
    refused_.fetch_add(1, std::memory_order_relaxed);
  }
}

void Pusher::count(VolumeCounters& out) const {
  out.pushes = pushes_;
  out.pushed_bytes = bytes_;
  out.pushes_refused = refused_;
}

}  // namespace brevis::serve
