// SPDX-License-Identifier: Apache-2.0
//
// Fuzz: the gate of a prior's file. The checksum is made right first, so that what lies behind it is reached.
#include <algorithm>

#include "base/checksum.h"
#include "base/coding.h"
#include "fuzz/fuzz.h"
#include "synth/prior_file.h"

using namespace brevis;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ByteVector bytes(data, data + size);
  const uint64_t checksum = xxh3_64(bytes);
  ByteWriter(bytes).fixed<uint64_t>(checksum);
  const auto prior = synth::read_prior(bytes);
  if (!prior) {
    BREVIS_FUZZ_CHECK(prior.error().kind() == Errc::corrupt || prior.error().kind() == Errc::unsupported);
    return 0;
  }
  BREVIS_FUZZ_CHECK(synth::write_prior(*prior) == bytes);
  const synth::Production split{dsl::OpId::merge, {8, 8}, {}};
  BREVIS_FUZZ_CHECK(prior->costs({}, {&split, 1}).size() == 2);
  BREVIS_FUZZ_CHECK(prior->expected({}) <= synth::Prior::kWhole);
  return 0;
}
