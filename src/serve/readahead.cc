// SPDX-License-Identifier: Apache-2.0
//
// Requests of one stream come in any order, since the kernel has several under way: a request belongs to a stream when
// it begins near its end, not only at it (slack). What was fetched ahead may never be asked for, as the kernel got it
// pushed: a request within what is ahead of a stream belongs to it, too, and tells how far the reader has come.
//
// A file that is walked backwards in blocks is mostly read upwards within each, and one that is walked forwards may be
// read downwards within each: memcpy does that where source and target lie alike in their pages. A run that begins just
// as far below another's start as that one was long turns it into a falling stream; and one whose end is as far above
// another's top, into a rising one. Before it copies downwards, memcpy reads the first bytes of all: what lies between
// such a request and the ones before it is asked for later, and belongs to the stream. And nothing is ahead where
// another stream has been: those bytes are in the page cache.
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

constexpr uint64_t kRemembered = uint64_t{4} << 20;
// Larger ones are streams of their own.
constexpr uint64_t kMostBlock = kRemembered;
// Bytes that count as much as a request when it is said how long ago something was: most of what is pushed is never
// asked for.
constexpr uint64_t kTick = uint64_t{128} << 10;
// So many requests may come late when a stream has ended. Others begin a stream: the file is read again.
constexpr uint64_t kLate = 8;
// Farther than any file, and farther still with what is kept away from a reader.
constexpr uint64_t kPassed = UINT64_MAX / 2;
constexpr int kOther = 2;

uint64_t slack_of(Range request) { return std::max(kLeastSlack, 2 * request.length); }

bool within(uint64_t at, uint64_t low, uint64_t high, uint64_t slack) {
  return at + slack >= low && at <= high + slack;
}

}  // namespace

// Which way the request goes on with the stream; 0: nothing new of it; kOther: not at all.
int Streams::direction_of(const Stream& stream, Range request) {
  const uint64_t slack = slack_of(request);
  const bool young = stream.requests < kYoung;
  const bool rises = stream.direction > 0;
  const bool falls = stream.direction < 0;
  const uint64_t top = rises ? std::max(stream.high, stream.ahead) + stream.block : stream.high;
  uint64_t bottom = falls ? std::min(stream.low, stream.ahead) : stream.low;
  bottom -= falls ? std::min(bottom, stream.block) : 0;
  if ((young || rises) && request.end() > stream.high && within(request.offset, stream.high, top, slack)) return 1;
  if ((young || falls) && request.offset < stream.low && within(request.end(), bottom, stream.low, slack)) return -1;
  const bool is_inside = request.offset >= stream.low && request.end() <= stream.high;
  return is_inside && (stream.window != 0 || stream.high - stream.low <= 16 * slack) ? 0 : kOther;
}

// The stream that a request goes on in blocks, each read the other way.
Streams::Stream* Streams::match_block(Range request, int& direction) {
  const uint64_t slack = slack_of(request);
  for (Stream& stream : streams_) {
    if ((stream.requests < kYoung && stream.window == 0) || stream.block != 0) continue;
    const bool rises = stream.direction > 0;
    // What was fetched ahead is of the block, too, or goes beyond it.
    const uint64_t asked = stream.top - stream.bottom;
    const uint64_t all =
        rises ? std::max(stream.top, stream.ahead) - stream.bottom : stream.top - std::min(stream.bottom, stream.ahead);
    for (const uint64_t block : {asked, all}) {
      const bool follows = rises ? request.end() <= stream.bottom + slack &&
                                       within(request.offset + block, stream.bottom, stream.bottom, kLeastSlack)
                                 : request.offset + slack >= stream.top &&
                                       within(request.end(), stream.top + block, stream.top + block, slack);
      if (!follows || block > kMostBlock) continue;
      direction = rises ? -1 : 1;
      stream.block = block;
      stream.ended = false;
      return &stream;
    }
  }
  return nullptr;
}

// The stream that the request belongs to, and which way it goes on. One that is recognised rather than one that may
// have begun where memcpy looked first.
Streams::Stream* Streams::match(Range request, int& direction) {
  for (const bool recognised : {true, false})
    for (const bool goes_on : {true, false})
      for (Stream& stream : streams_) {
        if (stream.requests == 0 || (stream.window != 0) != recognised) continue;
        direction = direction_of(stream, request);
        if (stream.ended && (direction != 0 || clock_ - stream.used > kLate)) continue;
        if (direction != kOther && (direction != 0) == goes_on) return &stream;
      }
  return match_block(request, direction);
}

Streams::Advice Streams::note(Range request, uint64_t file_size, uint64_t limit, uint64_t large_limit) {
  ++clock_;
  int direction = 0;
  Stream* stream = match(request, direction);
  if (!stream) {
    stream = &*std::min_element(streams_.begin(), streams_.end(),
                                [](const Stream& a, const Stream& b) { return a.used < b.used; });
    *stream = {};
    stream->low = stream->bottom = request.offset;
    stream->high = stream->top = request.end();
    stream->requests = 1;
    stream->bytes = request.length;
    stream->used = clock_;
    doubt(*stream, request);
    stream->doubtful = false;
    return {};
  }
  if (!stream->ended) stream->used = clock_;
  if (direction == 0) return {};
  if (stream->direction != direction) turn(*stream, direction, request);
  ++stream->requests;
  stream->bytes += request.length;
  const uint64_t passed = direction > 0 ? request.end() - stream->high : stream->low - request.offset;
  clock_ += passed / kTick;
  stream->high = std::max(stream->high, request.end());
  stream->low = std::min(stream->low, request.offset);
  doubt(*stream, request);
  if (stream->doubtful) {
    stream->bottom = request.offset;
    stream->top = request.end();
    stream->doubtful = false;
  }
  stream->top = std::max(stream->top, request.end());
  stream->bottom = std::min(stream->bottom, request.offset);
  // What lies far behind is forgotten, so that another reader who comes there begins a stream of his own.
  if (direction > 0)
    stream->low = std::max(stream->low, stream->high > kRemembered ? stream->high - kRemembered : 0);
  else
    stream->high = std::min(stream->high, stream->low + kRemembered);
  return go_on(*stream, file_size, limit, large_limit);
}

// What is on its way in the other direction is no use any more.
void Streams::turn(Stream& stream, int direction, Range request) {
  if (stream.position) stream.position->store(stream.direction > 0 ? kPassed : 0, std::memory_order_relaxed);
  stream.position = std::make_shared<std::atomic<uint64_t>>();
  stream.direction = direction;
  stream.ahead = direction > 0 ? request.end() : request.offset;
}

// Bytes that a stream has had are not in the page cache any more when they are asked for again; nor may those be that
// others have had. What each has had counts anew from where it goes on.
void Streams::doubt(const Stream& stream, Range request) {
  const uint64_t slack = slack_of(request);
  const bool again = std::any_of(streams_.begin(), streams_.end(), [&](const Stream& other) {
    return &other != &stream && is_known(other) && request.offset >= other.bottom + slack &&
           request.end() + slack <= other.top;
  });
  if (!again) return;
  for (Stream& each : streams_) each.doubtful = true;
}

bool Streams::is_known(const Stream& stream) { return stream.requests >= kYoung && !stream.doubtful; }

// Where another stream has read above this one, or `end`.
uint64_t Streams::read_from(const Stream& stream, uint64_t end) const {
  for (const Stream& other : streams_)
    if (is_known(other) && &other != &stream && other.bottom >= stream.high) end = std::min(end, other.bottom);
  return end;
}

// Where another stream has read below this one, or `start`.
uint64_t Streams::read_down_to(const Stream& stream, uint64_t start) const {
  for (const Stream& other : streams_)
    if (is_known(other) && &other != &stream && other.top <= stream.low) start = std::max(start, other.top);
  return start;
}

Streams::Advice Streams::go_on(Stream& stream, uint64_t file_size, uint64_t limit, uint64_t large_limit) {
  Advice advice;
  advice.falling = stream.direction < 0;
  advice.small = stream.bytes / stream.requests < kSmallRequest;
  advice.bytes = stream.bytes;
  if (!advice.falling && !advice.small) limit = std::min(limit, large_limit);
  stream.position->store(advice.falling ? stream.low : stream.high, std::memory_order_relaxed);
  advice.position = stream.position;
  const bool at_end = advice.falling ? stream.low == 0 : stream.high >= file_size;
  stream.ended = at_end && stream.requests >= kYoung;
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
  const uint64_t start = read_down_to(stream, stream.low > stream.window ? stream.low - stream.window : 0);
  if (start >= stream.ahead) return advice;
  advice.range = {start, stream.ahead - start};
  stream.ahead = start;
  return advice;
}

size_t Streams::active() const {
  return static_cast<size_t>(std::count_if(streams_.begin(), streams_.end(), [this](const Stream& stream) {
    return stream.window != 0 && !stream.ended && clock_ - stream.used < 64 * kStreams;
  }));
}

}  // namespace brevis::serve
