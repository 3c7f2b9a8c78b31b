// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <vector>

#include "serve/admission.h"
#include "serve/request.h"

using namespace brevis;
using serve::Admission;
using serve::RequestPtr;

namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
RequestPtr request() { return std::make_shared<serve::Request>(); }

// Whom leaving lets go on.
std::vector<RequestPtr> admitted_by_leaving(Admission& admission, uint64_t source, uint64_t bytes) {
  serve::Ready ready;
  admission.leave(source, bytes, ready);
  std::vector<RequestPtr> out;
  while (!ready.empty()) out.push_back(ready.pop_front());
  return out;
}

}  // namespace

TEST_CASE("a source gets half of the budget, then waits in line") {
  Admission admission(64 * kMiB);
  for (int i = 0; i < 32; ++i) CHECK(admission.enter(1, kMiB, request()));
  const RequestPtr first = request(), second = request();
  CHECK_FALSE(admission.enter(1, kMiB, first));
  CHECK_FALSE(admission.enter(1, kMiB, second));
  CHECK(admission.enter(2, kMiB, request()));  // others are not held up
  CHECK(admitted_by_leaving(admission, 2, kMiB).empty());
  CHECK(admitted_by_leaving(admission, 1, kMiB) == std::vector<RequestPtr>{first});
  CHECK(admitted_by_leaving(admission, 1, 2 * kMiB) == std::vector<RequestPtr>{second});
}

TEST_CASE("M24: whoever holds nothing gets on although one source has its share for ever") {
  Admission admission(2 * kMiB);
  CHECK(admission.enter(1, kMiB, request()));
  CHECK_FALSE(admission.enter(1, kMiB, request()));
  CHECK(admission.enter(2, kMiB, request()));
  CHECK(admission.enter(3, kMiB, request()));
  CHECK(admitted_by_leaving(admission, 2, kMiB).empty());
  CHECK(admission.enter(2, kMiB, request()));
  CHECK(admission.held() == 3 * kMiB);
}

TEST_CASE("a request beyond any budget goes alone, and all waiting ones get their turn") {
  Admission admission(0);
  CHECK(admission.enter(1, 1000 * kMiB, request()));
  std::vector<RequestPtr> waiting;
  for (uint64_t i = 0; i < 200; ++i) {
    waiting.push_back(request());
    CHECK_FALSE(admission.enter(i % 10, 100 * kMiB, waiting.back()));
  }
  std::vector<RequestPtr> admitted = admitted_by_leaving(admission, 1, 1000 * kMiB);
  for (size_t i = 0; i < admitted.size() && i < 200; ++i) {
    for (uint64_t source = 0; source < 10; ++source)
      for (size_t w = source; w < 200; w += 10) {
        if (waiting[w] != admitted[i]) continue;
        for (RequestPtr& next : admitted_by_leaving(admission, source, 100 * kMiB)) admitted.push_back(std::move(next));
      }
  }
  CHECK(admitted.size() == 200);
  CHECK(admission.held() == 0);
}
