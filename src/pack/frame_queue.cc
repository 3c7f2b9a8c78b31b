// SPDX-License-Identifier: Apache-2.0
#include "pack/frame_queue.h"

namespace brevis::pack {
namespace {

constexpr size_t kMostItems = 256;

}  // namespace

FrameQueue::~FrameQueue() {
  stop_ = true;
  std::unique_lock lock(mutex_);
  made_.wait(lock, [&] { return running_ == 0; });
}

bool FrameQueue::is_ready(const Item& item) {
  if (item.step) return true;
  const std::lock_guard lock(mutex_);
  return item.made.has_value();
}

Status FrameQueue::take_first() {
  Item& item = items_.front();
  Status outcome;
  if (item.step) {
    outcome = item.step();
  } else {
    std::optional<Result<EncodedFrame>> made;
    {
      std::unique_lock lock(mutex_);
      made_.wait(lock, [&] { return item.made.has_value(); });
      made = std::move(item.made);
    }
    outcome = item.take(std::move(*made));
  }
  bytes_ -= item.bytes;
  items_.pop_front();
  return outcome;
}

Status FrameQueue::push(uint64_t bytes, Make make, Take take) {
  while (!items_.empty() && (bytes_ + bytes > limit_ || items_.size() >= kMostItems || is_ready(items_.front())))
    BREVIS_TRY(take_first());
  items_.push_back({bytes, std::nullopt, std::move(take), nullptr});
  bytes_ += bytes;
  Item& item = items_.back();
  {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  pool_->post([this, &item, make = std::move(make)] {
    std::optional<Result<EncodedFrame>> made;
    if (!stop_) made.emplace(caught(make));
    const std::lock_guard lock(mutex_);
    item.made = std::move(made);
    --running_;
    made_.notify_all();
  });
  return {};
}

Status FrameQueue::then(std::function<Status()> step) {
  items_.push_back({0, std::nullopt, nullptr, std::move(step)});
  while (!items_.empty() && is_ready(items_.front())) BREVIS_TRY(take_first());
  return {};
}

Status FrameQueue::flush() {
  while (!items_.empty()) BREVIS_TRY(take_first());
  return {};
}

}  // namespace brevis::pack
