// SPDX-License-Identifier: Apache-2.0
//
// Every magic number, size and limit of the archive format, version 1. No logic; docs/format.md is the text to it.
#pragma once

#include <cstdint>

namespace brevis::archive {

// "BREVIS\r\n" read as a little-endian word: the line ends catch transfers in text mode.
constexpr uint64_t kHeaderMagic = 0x0a0d534956455242;
constexpr uint64_t kFooterMagic = 0x444e455649455242;  // "BREIVEND"
constexpr uint32_t kVersion = 1;

// header, 64 bytes: magic u64 | version u32 | features u32 | original size u64 | archive id u64 u64 (low, high) |
//                   index offset u64 | index stored length u64 | XXH3-64 of the 56 bytes before u64
constexpr uint64_t kHeaderBytes = 64;
// footer, 32 bytes: index offset u64 | index stored length u64 | XXH3-64 of the stored index u64 | magic u64
constexpr uint64_t kFooterBytes = 32;

// Required-feature bits: a reader refuses an archive with a bit it does not know.
constexpr uint32_t kFeatureRef = 1u << 0;         // a program uses `ref` within the file
constexpr uint32_t kFeatureOffset = 1u << 1;      // a program uses `offset`
constexpr uint32_t kFeatureTranspose = 1u << 2;   // a program uses `transpose`
constexpr uint32_t kFeatureSelect = 1u << 3;      // a program uses `select`
constexpr uint32_t kFeatureRelations = 1u << 4;   // a program uses `combine`, `patch` or `base`
constexpr uint32_t kFeatureText = 1u << 5;        // a program uses the codec `text`
constexpr uint32_t kFeatureContext = 1u << 6;     // a program uses `context`
constexpr uint32_t kFeatureUpdate = 1u << 7;      // a program uses `update`
constexpr uint32_t kFeatureLevels = 1u << 8;      // a program uses `levels`
constexpr uint32_t kFeatureDequantise = 1u << 9;  // a program uses `dequantise`
constexpr uint32_t kKnownFeatures = kFeatureRef | kFeatureOffset | kFeatureTranspose | kFeatureSelect |
                                    kFeatureRelations | kFeatureText | kFeatureContext | kFeatureUpdate |
                                    kFeatureLevels | kFeatureDequantise;

// Limits: beyond them a file is refused as corrupt before anything is allocated.
constexpr uint64_t kMaxIndexBytes = uint64_t{1} << 30;           // uncompressed; 100,000 tensors need 3 MB
constexpr uint64_t kMaxOriginalBytes = uint64_t{1} << 60;        // far from overflow in every sum
constexpr uint64_t kMaxPrefixBytes = (uint64_t{256} << 20) + 8;  // safetensors header and its length word
constexpr uint32_t kMaxRefChain = 1;                             // a ref's target is itself free of refs
constexpr uint32_t kMaxDepth = 4;                                // an archive, its base, the base of that ..
constexpr uint64_t kMaxBases = 4096, kMaxHintBytes = 1024;       // base archives; bytes of the path to one
// An index may unfold to this much beyond its stored length times kIndexExpansion: a small hostile file cannot make a
// reader allocate much. The writer stores an index that compresses better than that in raw blocks.
constexpr uint64_t kIndexFloor = uint64_t{4} << 20;
constexpr uint64_t kIndexExpansion = 64;
constexpr uint64_t kMaxStoredFrameBytes = uint64_t{8}
                                          << 20;          // eight times the largest output: no sane program needs it
constexpr uint64_t kMaxProgramNodes = uint64_t{1} << 18;  // of all programs: bounds their memory, 100 times reality
constexpr uint64_t kMaxRecordNodes = uint64_t{1} << 25;   // nodes summed over records: bounds the work of opening
constexpr uint64_t kMaxProvenance = 256, kMaxProvenanceKey = 64, kMaxProvenanceValue = 4096;  // entries, bytes, bytes

// How a segment names its place, bits 2 and 3 of its tag (bits 0 and 1: SegmentKind). The smallest that applies is the
// one that stands in the file.
enum class Placement : uint8_t {
  empty = 0,       // no bytes, no record
  behind = 1,      // right behind the bytes of the segment before, in the same record
  next = 2,        // the start of the record after the highest one named so far
  explicitly = 3,  // record and offset are spelled out
};

// Index sections, in this order: tag varint | length varint | body. All up to `digest` are present, also when empty.
enum class Section : uint8_t {
  provenance = 1,  // how it was packed: what changes bytes, nothing else
  programs = 2,    // wire forms
  tables = 3,      // stored tables of codecs and word lists
  records = 4,     // streams: program, length, bindings, frame lengths, digest
  segments = 5,    // the original file as spans of streams
  frames = 6,      // stored lengths and checksums
  digest = 7,      // SHA-256 of the original file
  bases = 8,       // other archives whose originals this one's programs use; stands only where some program does
};

}  // namespace brevis::archive
