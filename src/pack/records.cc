// SPDX-License-Identifier: Apache-2.0
#include "pack/records.h"

#include <algorithm>
#include <map>

#include "base/checksum.h"

namespace brevis::pack {
namespace {

using archive::SegmentKind;

constexpr uint64_t kBundleBelow = 16384;    // bytes; smaller tensors share a stream with their like
constexpr uint64_t kSmallestBundle = 8192;  // bytes; smaller bundles of one dtype join
constexpr uint64_t kOpaqueWords = 65536;    // bytes; shorter runs are not worth cutting at a whole word
constexpr uint64_t kOpaqueRun = 8u << 20;   // bytes; long runs are cut, since their content changes along the way

// "model.layers.7.self_attn.q_proj.weight" -> "weight"; "block_3/conv2d_17/kernel:0" -> "kernel:".
std::string role_of(const std::string& name) {
  const size_t at = name.find_last_of("./");
  std::string role = at == std::string::npos ? name : name.substr(at + 1);
  role.erase(std::remove_if(role.begin(), role.end(), [](char c) { return c >= '0' && c <= '9'; }), role.end());
  return role;
}

// Long runs end on a whole 4-byte word, the odd bytes stand by themselves: weights of other formats hide in opaque
// files, and a stream of words needs a whole number of them.
void add_opaque(Range run, std::vector<RecordPlan>& out) {
  while (run.length > 0) {
    uint64_t n = std::min(run.length, kOpaqueRun);
    if (n >= kOpaqueWords && n % 4 != 0) n -= n % 4;
    RecordPlan plan;
    plan.name = "bytes at " + std::to_string(run.offset);
    plan.members.push_back({{run.offset, n}, 0});
    out.push_back(std::move(plan));
    run.offset += n;
    run.length -= n;
  }
}

using BundleKey = std::pair<Dtype, std::string>;

// Small bundles of one dtype join under the empty role; what is left alone in a bundle is a plain tensor.
std::vector<RecordPlan> finish_bundles(std::map<BundleKey, RecordPlan>& bundles) {
  std::map<BundleKey, RecordPlan> merged;
  for (auto& [key, plan] : bundles) {
    const BundleKey target = plan.bytes() < kSmallestBundle ? BundleKey{key.first, ""} : key;
    RecordPlan& into = merged[target];
    into.kind = SegmentKind::tensor;
    into.dtype = key.first;
    into.bundle = true;
    into.name = target.second.empty() ? "small tensors" : "small tensors '" + target.second + "'";
    into.members.insert(into.members.end(), plan.members.begin(), plan.members.end());
  }
  std::vector<RecordPlan> out;
  for (auto& [key, plan] : merged) {
    std::sort(plan.members.begin(), plan.members.end(),
              [](const Member& a, const Member& b) { return a.span.offset < b.span.offset; });
    plan.bundle = plan.members.size() > 1;
    out.push_back(std::move(plan));
  }
  std::sort(out.begin(), out.end(), [](const RecordPlan& a, const RecordPlan& b) {
    return a.members.front().span.offset < b.members.front().span.offset;
  });
  return out;
}

}  // namespace

uint64_t RecordPlan::bytes() const {
  uint64_t sum = 0;
  for (const Member& member : members) sum += member.span.length;
  return sum;
}

std::vector<RecordPlan> cut_into_records(const Verdict& verdict, uint64_t file_size) {
  std::vector<RecordPlan> out;
  std::map<BundleKey, RecordPlan> bundles;
  uint64_t at = 0;
  if (verdict.prefix_bytes > 0 && verdict.prefix_bytes <= file_size) {
    RecordPlan prefix;
    prefix.kind = SegmentKind::prefix;
    prefix.name = "header";
    prefix.members.push_back({{0, verdict.prefix_bytes}, 0});
    out.push_back(std::move(prefix));
    at = verdict.prefix_bytes;
  }
  for (const TensorInfo& tensor : verdict.tensors) {
    if (tensor.span.length == 0) continue;
    if (tensor.span.offset > at) add_opaque({at, tensor.span.offset - at}, out);
    at = tensor.span.end();
    RecordPlan plan;
    plan.kind = SegmentKind::tensor;
    plan.dtype = tensor.dtype;
    plan.name = tensor.name;
    plan.role = role_of(tensor.name);
    plan.members.push_back({tensor.span, tensor.ordinal});
    if (dtype_info(tensor.dtype).bits == plan.width()) plan.shape = tensor.shape;
    if (tensor.span.length >= kBundleBelow) {
      out.push_back(std::move(plan));
    } else {
      auto& bundle = bundles[{tensor.dtype, plan.role}];
      bundle.members.push_back(plan.members.front());
    }
  }
  if (at < file_size) add_opaque({at, file_size - at}, out);
  for (auto& plan : finish_bundles(bundles)) out.push_back(std::move(plan));
  return out;
}

Status fold_twins(const Source& source, std::vector<RecordPlan>& plans) {
  ByteVector bytes, other;
  for (RecordPlan& plan : plans) {
    if (!plan.bundle) continue;
    std::map<std::pair<Digest, uint64_t>, size_t> seen;  // (digest, bytes) -> member kept
    std::vector<Member> kept;
    for (const Member& member : plan.members) {
      bytes.resize(member.span.length);
      BREVIS_TRY(source.read(member.span.offset, bytes));
      const Digest digest = xxh3_128(bytes);
      const auto [at, is_new] = seen.emplace(std::pair{digest, member.span.length}, kept.size());
      bool equal = false;
      if (!is_new) {
        other.resize(member.span.length);
        BREVIS_TRY(source.read(kept[at->second].span.offset, other));
        equal = bytes == other;
      }
      if (equal) {
        plan.twins.push_back({member.span, member.ordinal, at->second, digest});
      } else {
        kept.push_back(member);
      }
    }
    plan.members = std::move(kept);
  }
  return {};
}

std::vector<Member> empty_tensors(const Verdict& verdict) {
  std::vector<Member> out;
  for (const TensorInfo& tensor : verdict.tensors)
    if (tensor.span.length == 0) out.push_back({tensor.span, tensor.ordinal});
  return out;
}

}  // namespace brevis::pack
