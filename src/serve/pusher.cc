// SPDX-License-Identifier: Apache-2.0
#include "serve/pusher.h"

#include <algorithm>
#include <optional>
#include <utility>

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
constexpr int64_t kLookEveryMs = 100;

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

// What is not pushed is read when it is asked for: nothing here is worth the daemon's life.
template <class Body>
void guarded(Body&& body) {
  try {
    body();
  } catch (const std::exception& e) {
    log(LogLevel::error, std::string("internal fault while pushing: ") + e.what());
  }
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

// Whoever finds the last look old looks, without the lock: it reads files.
bool Pusher::memory_is_short() {
  using std::chrono::milliseconds;
  const int64_t now =
      std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
  int64_t last = looked_at_.load();
  if ((last != 0 && now - last < kLookEveryMs) || !looked_at_.compare_exchange_strong(last, now))
    return short_of_memory_;
  const MemoryState memory = memory_state();
  short_of_memory_ = memory.available < std::max(kLeastMemory, memory.total / 20);
  return short_of_memory_;
}

bool Pusher::push(Job job) {
  const std::vector<Range> pieces = pieces_of(job.range, job.file_size, job.falling);
  const bool is_short = memory_is_short();
  const std::lock_guard lock(mutex_);
  if (!started_ || stopping_ || is_short) return false;
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
      guarded([&] { store(next); });
    } else {
      const Job next = std::move(jobs_.front());
      jobs_.pop_front();
      const bool wanted = !next.open.expired() && !near_to_reader(next);
      reading_ += wanted;
      lock.unlock();
      if (wanted) guarded([&] { begin(next); });
    }
    lock.lock();
  }
  if (--running_ == 0) ended_.notify_all();
}

// With the lock held, once for each piece that was begun.
void Pusher::read_has_ended(bool& counted) {
  if (!std::exchange(counted, false)) return;
  --reading_;
  wake_.notify_one();  // there is room for another piece
  if (stopping_) ended_.notify_all();
}

// Reads a piece, and stores it at once, while the bytes are warm, when they came right here; else a worker brings them.
// Where the processors are few, whoever answers the reader, or he himself, would wait for each of these steps.
void Pusher::begin(const Job& piece) {
  struct Here {
    std::thread::id thread = std::this_thread::get_id();  // none once read_() has returned
    bool counted = true;
    std::optional<Store> store;
  };
  const auto here = std::make_shared<Here>();
  const auto arrived = [this, here, node = piece.node, at = piece.range.offset,
                        open = piece.open](Result<ReadResult> bytes) {
    const std::lock_guard lock(mutex_);
    read_has_ended(here->counted);
    if (!bytes || stopping_) return;
    Store store{node, at, open, std::move(*bytes)};
    if (here->thread == std::this_thread::get_id()) {
      here->store = std::move(store);
    } else {
      stores_.push_back(std::move(store));
      wake_.notify_one();
    }
  };
  try {
    read_(piece.archive, piece.range, arrived);
  } catch (...) {
    const std::lock_guard lock(mutex_);
    read_has_ended(here->counted);
    throw;
  }
  std::optional<Store> ready;
  {
    const std::lock_guard lock(mutex_);
    here->thread = {};
    ready.swap(here->store);
  }
  if (!ready) return;
  std::this_thread::yield();
  store(*ready);
  std::this_thread::yield();
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
