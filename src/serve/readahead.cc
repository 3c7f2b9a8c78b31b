// SPDX-License-Identifier: Apache-2.0
//
// Requests of one stream come in any order, since the kernel has several under way: a request belongs to a stream when
// it begins near its end, not only at it (slack). What was fetched ahead may never be asked for, as the kernel got it
// pushed: a request within what is ahead of a stream belongs to it, too, and tells how far the reader has come.
//
// A file that is walked backwards in blocks is mostly read upwards within each. A run that begins just as far below
// another's start as that one was long turns it into a falling stream. And nothing is ahead where another stream has
// been: those bytes are in the page cache.
#include "serve/readahead.h"

#include <algorithm>

namespace brevis::serve {
namespace {

constexpr uint64_t kFirstWindow = uint64_t{1} << 20;
// Adjacent requests of so many bytes make a stream: a header's length and then the header do not.
constexpr uint64_t kRecognised = uint64_t{256} << 10;
// The first requests may come in any order, and say little of where all this goes.
constexpr uint64_t kYoung = 4;
constexpr uint64_t kLeastSlack = uint64_t{64} << 10;
// Below that on average, the kernel's own reading ahead is the small one of ordinary users' mounts or of mapped faults.
constexpr uint64_t kSmallRequest = uint64_t{384} << 10;

bool within(uint64_t at, uint64_t low, uint64_t high, uint64_t slack) {
  return at + slack >= low && at <= high + slack;
}

}  // namespace

// The stream that the request goes on, and which way.
Streams::Stream* Streams::match(Range request, int& direction) {
  const uint64_t slack = std::max(kLeastSlack, 2 * request.length);
  for (Stream& stream : streams_) {
    if (stream.requests == 0) continue;
    const uint64_t top = stream.direction > 0 ? std::max(stream.high, stream.ahead) : stream.high;
    const uint64_t bottom = stream.direction < 0 ? std::min(stream.low, stream.ahead) : stream.low;
    const bool young = stream.requests < kYoung;
    if ((young || stream.direction > 0) && request.end() > stream.high &&
        within(request.offset, stream.high, top, slack)) {
      direction = 1;
      return &stream;
    }
    if ((young || stream.direction < 0) && request.offset < stream.low &&
        within(request.end(), bottom, stream.low, slack)) {
      direction = -1;
      return &stream;
    }
    // Again, or late: nothing new of a stream.
    if (request.offset >= stream.low && request.end() <= stream.high && stream.high - stream.low <= 16 * slack) {
      direction = 0;
      return &stream;
    }
  }
  for (Stream& stream : streams_) {
    const uint64_t block = stream.high - stream.start;
    if (stream.requests >= kYoung && stream.direction > 0 && request.end() <= stream.start + slack &&
        within(request.offset + block, stream.start, stream.start, kLeastSlack)) {
      direction = -1;
      return &stream;
    }
  }
  return nullptr;
}

Streams::Advice Streams::note(Range request, uint64_t file_size, uint64_t limit, uint64_t large_limit) {
  ++clock_;
  int direction = 0;
  Stream* stream = match(request, direction);
  if (!stream) {
    stream = &*std::min_element(streams_.begin(), streams_.end(),
                                [](const Stream& a, const Stream& b) { return a.used < b.used; });
    *stream = {request.offset, request.end(), request.offset, 0, 0, 1, request.length, clock_, 0, nullptr};
    return {};
  }
  stream->used = clock_;
  if (direction == 0) return {};
  if (stream->direction != direction) {
    stream->direction = direction;
    stream->ahead = direction > 0 ? request.end() : request.offset;
  }
  ++stream->requests;
  stream->bytes += request.length;
  stream->high = std::max(stream->high, request.end());
  stream->low = std::min(stream->low, request.offset);
  stream->start = std::min(stream->start, stream->low);
  // What lies far behind is forgotten, so that another reader who comes there begins a stream of his own.
  constexpr uint64_t kRemembered = uint64_t{4} << 20;
  if (direction > 0)
    stream->low = std::max(stream->low, stream->high > kRemembered ? stream->high - kRemembered : 0);
  else
    stream->high = std::min(stream->high, stream->low + kRemembered);
  return go_on(*stream, file_size, limit, large_limit);
}

// Where another stream has read above this one, or `end`.
uint64_t Streams::read_from(const Stream& stream, uint64_t end) const {
  for (const Stream& other : streams_)
    if (&other != &stream && other.requests >= kYoung && other.low >= stream.high) end = std::min(end, other.low);
  return end;
}

Streams::Advice Streams::go_on(Stream& stream, uint64_t file_size, uint64_t limit, uint64_t large_limit) {
  Advice advice;
  advice.falling = stream.direction < 0;
  advice.small = stream.bytes / stream.requests < kSmallRequest;
  advice.bytes = stream.bytes;
  if (!advice.falling && !advice.small) limit = std::min(limit, large_limit);
  if (!stream.position) stream.position = std::make_shared<std::atomic<uint64_t>>();
  stream.position->store(advice.falling ? stream.low : stream.high, std::memory_order_relaxed);
  advice.position = stream.position;
  if (limit == 0 || stream.bytes < kRecognised) return advice;
  if (stream.window == 0) advice.is_new = true;
  if (stream.direction > 0) {
    stream.ahead = std::max(stream.ahead, stream.high);
    const uint64_t left = stream.ahead - stream.high;
    if (stream.window != 0 && left > stream.window / 2) return advice;
    stream.window = std::min(limit, stream.window == 0 ? kFirstWindow : 2 * stream.window);
    const uint64_t end = read_from(stream, std::min(file_size, stream.high + stream.window));
    if (end <= stream.ahead) return advice;
    advice.range = {stream.ahead, end - stream.ahead};
    stream.ahead = end;
    return advice;
  }
  stream.ahead = std::min(stream.ahead, stream.low);
  const uint64_t left = stream.low - stream.ahead;
  if (stream.window != 0 && left > stream.window / 2) return advice;
  stream.window = std::min(limit, stream.window == 0 ? kFirstWindow : 2 * stream.window);
  const uint64_t start = stream.low > stream.window ? stream.low - stream.window : 0;
  if (start >= stream.ahead) return advice;
  advice.range = {start, stream.ahead - start};
  stream.ahead = start;
  return advice;
}

size_t Streams::active() const {
  return static_cast<size_t>(std::count_if(streams_.begin(), streams_.end(), [this](const Stream& stream) {
    return stream.window != 0 && clock_ - stream.used < 64 * kStreams;
  }));
}

}  // namespace brevis::serve
