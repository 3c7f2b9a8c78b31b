// SPDX-License-Identifier: Apache-2.0
//
// The body of ordered_parallel (threads.h): a ring of `window` slots; workers fill slots, the caller empties them in
// order and posts the next index into the slot it freed, so memory stays bounded by the window whatever the count.
#pragma once

#include <condition_variable>
#include <optional>
#include <vector>

#include "base/threads.h"

namespace brevis {

template <class R, class Make, class Take>
Status ordered_parallel(Pool& pool, size_t count, size_t window, Make make, Take take) {
  struct Ring {
    std::mutex mutex;
    std::condition_variable ready;
    std::vector<std::optional<Result<R>>> slots;
    size_t running = 0;
    bool stop = false;
  } ring;
  window = window == 0 ? 1 : window;
  ring.slots.resize(window < count ? window : count);
  auto start = [&](size_t index) {
    {
      const std::lock_guard lock(ring.mutex);
      ++ring.running;
    }
    pool.post([&ring, &make, index] {
      std::optional<Result<R>> result;
      bool skip;
      {
        const std::lock_guard lock(ring.mutex);
        skip = ring.stop;
      }
      if (!skip) result.emplace(caught([&]() -> Result<R> { return make(index); }));
      const std::lock_guard lock(ring.mutex);
      ring.slots[index % ring.slots.size()] = std::move(result);
      --ring.running;
      ring.ready.notify_all();
    });
  };
  for (size_t i = 0; i < ring.slots.size(); ++i) start(i);
  Status outcome;
  for (size_t i = 0; i < count && outcome; ++i) {
    std::optional<Result<R>> result;
    {
      std::unique_lock lock(ring.mutex);
      auto& slot = ring.slots[i % ring.slots.size()];
      ring.ready.wait(lock, [&] { return slot.has_value(); });
      result = std::move(slot);
      slot.reset();
    }
    if (!*result) {
      outcome = std::move(*result).error();
    } else {
      outcome = take(i, std::move(**result));
    }
    if (outcome && i + ring.slots.size() < count) start(i + ring.slots.size());
  }
  // Tasks hold references to this frame: none may outlive it.
  std::unique_lock lock(ring.mutex);
  ring.stop = true;
  ring.ready.wait(lock, [&] { return ring.running == 0; });
  return outcome;
}

}  // namespace brevis
