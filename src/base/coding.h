// SPDX-License-Identifier: Apache-2.0
//
// Bounds-checked little-endian reading and writing of the format's scalars. Varints are LEB128: seven bits a byte, low
// first, at most ten bytes, and canonical (no superfluous zero groups), so that one value has one spelling.
//
// Errors:  ByteReader gives `corrupt` when bytes run out or a varint is not canonical; it never reads past its span.
// Threads: values. Owns: nothing; ByteWriter appends to the vector it was given.
#pragma once

#include <cstring>
#include <string>

#include "brevis/error.h"
#include "brevis/types.h"

namespace brevis {

class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}

  size_t position() const { return at_; }
  size_t remaining() const { return bytes_.size() - at_; }
  bool at_end() const { return at_ == bytes_.size(); }

  // A little-endian integer of sizeof(T) bytes.
  template <class T>
  Result<T> fixed() {
    if (remaining() < sizeof(T)) return short_of(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }

  Result<uint64_t> varint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
      if (at_end()) return short_of(1);
      const uint8_t byte = bytes_[at_++];
      if (shift == 63 && byte > 1) break;
      value |= uint64_t{byte & 0x7fu} << shift;
      if (byte < 0x80) {
        if (byte == 0 && shift != 0) break;
        return value;
      }
    }
    return make_error(Errc::corrupt, "varint ending at byte " + std::to_string(at_) + " is not canonical");
  }

  // A varint that must not exceed `limit`; `what` names it in the error.
  Result<uint64_t> varint_up_to(uint64_t limit, const char* what) {
    BREVIS_ASSIGN(const uint64_t value, varint());
    if (value > limit)
      return make_error(Errc::corrupt, std::string(what) + " is " + std::to_string(value) + ", above the limit of " +
                                           std::to_string(limit));
    return value;
  }

  // The next n bytes, borrowed from the reader's span.
  Result<ByteSpan> bytes(uint64_t n) {
    if (remaining() < n) return short_of(n);
    const ByteSpan part = bytes_.subspan(at_, n);
    at_ += n;
    return part;
  }

 private:
  Error short_of(uint64_t wanted) const {
    return make_error(Errc::corrupt, "needs " + std::to_string(wanted) + " bytes at byte " + std::to_string(at_) +
                                         ", has " + std::to_string(remaining()));
  }

  ByteSpan bytes_;
  size_t at_ = 0;
};

class ByteWriter {
 public:
  explicit ByteWriter(ByteVector& out) : out_(out) {}

  template <class T>
  void fixed(T value) {
    const size_t at = out_.size();
    out_.resize(at + sizeof(T));
    std::memcpy(out_.data() + at, &value, sizeof(T));
  }

  void varint(uint64_t value) {
    while (value >= 0x80) {
      out_.push_back(static_cast<uint8_t>(value | 0x80));
      value >>= 7;
    }
    out_.push_back(static_cast<uint8_t>(value));
  }

  void bytes(ByteSpan part) { out_.insert(out_.end(), part.begin(), part.end()); }

 private:
  ByteVector& out_;
};

}  // namespace brevis
