// SPDX-License-Identifier: Apache-2.0
//
// What the operators' gates share: checks of parameter and child counts. The caller (verify.cc, exec.cc) puts the
// operator's name in front of the errors. Private to ops/.
//
// Errors: invalid_argument from the gates, corrupt for stored streams. Threads: pure functions.
#pragma once

#include <string>

#include "dsl/op.h"

namespace brevis::dsl {

inline Error gate_error(std::string rule) { return make_error(Errc::invalid_argument, std::move(rule)); }
inline Error corrupt_stream(std::string what) { return make_error(Errc::corrupt, std::move(what)); }

inline Status expect_params(const Node& node, size_t count) {
  if (node.params.size() == count) return {};
  return gate_error("takes " + std::to_string(count) + " parameters, got " + std::to_string(node.params.size()));
}

inline Status expect_arity(size_t arity, size_t wanted) {
  if (arity == wanted) return {};
  return gate_error("takes " + std::to_string(wanted) + " programs, got " + std::to_string(arity));
}

// The one data-dependent count of a node whose streams hold `count` of n words.
inline Status expect_count(uint64_t n, std::span<const uint64_t> counts) {
  if (counts.size() != 1) return make_error(Errc::internal, "one count expected");
  if (counts[0] <= n) return {};
  return corrupt_stream("count " + std::to_string(counts[0]) + " exceeds the stream's " + std::to_string(n) + " words");
}

// Every child as long as the node's own stream.
inline Status equal_lengths(const Node&, uint64_t n, std::span<const uint64_t>, std::span<uint64_t> lengths) {
  for (uint64_t& length : lengths) length = n;
  return {};
}

}  // namespace brevis::dsl
