// SPDX-License-Identifier: Apache-2.0
#include "pack/frame_queue.h"

#include <doctest/doctest.h>

#include <thread>

using namespace brevis;
using pack::EncodedFrame;

namespace {

EncodedFrame frame_of(uint8_t byte) {
  EncodedFrame frame;
  frame.stored = {byte};
  return frame;
}

}  // namespace

TEST_CASE("frames and steps are taken in the order they were asked for, whoever is faster") {
  for (const unsigned threads : {1u, 4u}) {
    Pool pool(threads);
    std::string order;
    {
      pack::FrameQueue queue(pool, 5);
      for (int i = 0; i < 40; ++i) {
        REQUIRE(queue.push(
            1,
            [i]() -> Result<EncodedFrame> {
              if (i % 4 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
              return frame_of(static_cast<uint8_t>('a' + i % 26));
            },
            [&](Result<EncodedFrame> made) -> Status {
              order.push_back(static_cast<char>(made->stored[0]));
              return {};
            }));
        if (i == 20)
          REQUIRE(queue.then([&]() -> Status {
            order.push_back('|');
            return {};
          }));
      }
      REQUIRE(queue.flush());
    }
    CHECK(order == "abcdefghijklmnopqrstu|vwxyzabcdefghijklmn");
  }
}

TEST_CASE("no more than the queue's bytes are in flight, but one frame always is") {
  Pool pool(4);
  std::atomic<uint64_t> flying{0}, most{0};
  pack::FrameQueue queue(pool, 100);
  for (const uint64_t bytes : {40u, 40u, 40u, 300u, 50u, 50u, 50u}) {
    REQUIRE(queue.push(
        bytes,
        [&, bytes]() -> Result<EncodedFrame> {
          const uint64_t now = flying += bytes;
          uint64_t seen = most;
          while (now > seen && !most.compare_exchange_weak(seen, now)) {
          }
          std::this_thread::sleep_for(std::chrono::milliseconds(2));
          flying -= bytes;
          return frame_of(0);
        },
        [](Result<EncodedFrame>) -> Status { return {}; }));
  }
  REQUIRE(queue.flush());
  CHECK(most <= 300);
}

TEST_CASE("errors and exceptions of tasks reach the taker; what was not taken is dropped with the queue") {
  Pool pool(2);
  pack::FrameQueue queue(pool, 1000);
  const auto pass = [](Result<EncodedFrame> made) -> Status {
    if (made) return {};
    return std::move(made).error();
  };
  REQUIRE(queue.push(
      1, []() -> Result<EncodedFrame> { throw std::runtime_error("broke"); }, pass));
  const Status broken = queue.flush();
  REQUIRE_FALSE(broken);
  CHECK(broken.error().kind() == Errc::internal);
  for (int i = 0; i < 10; ++i) {
    const Status pushed = queue.push(
        1, []() -> Result<EncodedFrame> { return make_error(Errc::io, "no"); }, pass);
    if (!pushed) break;
  }
}
