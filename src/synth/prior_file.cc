// SPDX-License-Identifier: Apache-2.0
#include "synth/prior_file.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/coding.h"
#include "dsl/verify.h"

namespace brevis::synth {
namespace {

constexpr std::string_view kMagic = "BRVPRIOR";
constexpr uint64_t kVersion = 1;
constexpr uint64_t kMaxCount = uint64_t{1} << 31;  // sums stay far from 64 bits
constexpr size_t kChecksumBytes = 8;

Error broken(std::string rule) { return make_error(Errc::corrupt, "no prior of this program: " + std::move(rule)); }

Result<Prior::Symbol> read_symbol(ByteReader& in) {
  BREVIS_ASSIGN(const uint64_t numbers, in.varint_up_to(dsl::kMaxParams + 1, "numbers of a symbol"));
  Prior::Symbol symbol;
  for (uint64_t i = 0; i < numbers; ++i) {
    BREVIS_ASSIGN(const uint64_t number, in.varint());
    symbol.push_back(number);
  }
  return symbol;
}

Result<Prior::Node> read_node(ByteReader& in) {
  Prior::Node node;
  BREVIS_ASSIGN(node.total, in.varint_up_to(kMaxCount, "count of a context"));
  BREVIS_ASSIGN(node.share, in.varint_up_to(node.total * Prior::kWhole, "share of a context"));
  BREVIS_ASSIGN(const uint64_t symbols, in.varint_up_to(in.remaining(), "symbols of a context"));
  uint64_t sum = 0;
  for (uint64_t i = 0; i < symbols; ++i) {
    BREVIS_ASSIGN(Prior::Symbol symbol, read_symbol(in));
    BREVIS_ASSIGN(const uint64_t count, in.varint_up_to(kMaxCount, "count of a symbol"));
    if (count == 0 || (i != 0 && node.counts.rbegin()->first >= symbol))
      return broken("symbols of a context are out of order or empty");
    sum += count;
    node.counts.emplace_hint(node.counts.end(), std::move(symbol), count);
  }
  if (sum != node.total || sum == 0) return broken("the symbols of a context do not add up");
  return node;
}

}  // namespace

ByteVector write_prior(const Prior& prior) {
  ByteVector out(kMagic.begin(), kMagic.end());
  ByteWriter writer(out);
  writer.varint(kVersion);
  writer.varint(prior.nodes().size());
  for (const auto& [key, node] : prior.nodes()) {
    writer.bytes(key);
    writer.varint(node.total);
    writer.varint(node.share);
    writer.varint(node.counts.size());
    for (const auto& [symbol, count] : node.counts) {
      writer.varint(symbol.size());
      for (const uint64_t number : symbol) writer.varint(number);
      writer.varint(count);
    }
  }
  writer.fixed<uint64_t>(xxh3_64(out));
  return out;
}

Result<Prior> read_prior(ByteSpan bytes) {
  if (bytes.size() > kMaxPriorBytes) return broken("it is larger than 16 MiB");
  if (bytes.size() < kMagic.size() + kChecksumBytes ||
      !std::equal(kMagic.begin(), kMagic.end(), bytes.begin(), [](char a, uint8_t b) { return uint8_t(a) == b; }))
    return broken("it does not begin like one");
  const ByteSpan body = bytes.first(bytes.size() - kChecksumBytes);
  ByteReader tail(bytes.subspan(body.size()));
  BREVIS_ASSIGN(const uint64_t checksum, tail.fixed<uint64_t>());
  if (checksum != xxh3_64(body)) return broken("its checksum is wrong");
  ByteReader in(body.subspan(kMagic.size()));
  BREVIS_ASSIGN(const uint64_t version, in.varint());
  if (version != kVersion)
    return make_error(Errc::unsupported, "a prior of version " + std::to_string(version) + "; this build reads 1");
  BREVIS_ASSIGN(const uint64_t contexts, in.varint_up_to(in.remaining(), "contexts"));
  std::map<Prior::Key, Prior::Node> nodes;
  for (uint64_t i = 0; i < contexts; ++i) {
    Prior::Key key;
    BREVIS_ASSIGN(const ByteSpan stored, in.bytes(key.size()));
    std::copy(stored.begin(), stored.end(), key.begin());
    if (key[0] >= Prior::kLevels) return broken("a context of an unknown level");
    if (!nodes.empty() && nodes.rbegin()->first >= key) return broken("contexts are out of order");
    BREVIS_ASSIGN(Prior::Node node, read_node(in));
    nodes.emplace_hint(nodes.end(), key, std::move(node));
  }
  if (!in.at_end()) return broken("bytes follow its last context");
  Prior prior;
  prior.set_nodes(std::move(nodes));
  return prior;
}

}  // namespace brevis::synth
