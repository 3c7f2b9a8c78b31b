// SPDX-License-Identifier: Apache-2.0
//
// Amounts of bytes as people write and read them.
//
// Errors:  invalid_argument, saying what is accepted. Threads: pure.
#pragma once

#include <cstdint>
#include <string>

#include "brevis/error.h"

namespace brevis::tools {

// A whole number, then a unit: none or B, KiB MiB GiB TiB (also K M G T) of 1024, KB MB GB TB of 1000; case does not
// count.
Result<uint64_t> parse_size(const std::string& text);

// "17 B", "4.2 MB", "13 GB": powers of 1000, as disks and `ls --si` count.
std::string human_size(uint64_t bytes);
// 1234567 as "1,234,567".
std::string grouped(uint64_t number);
// "1 file", "2,000 files".
std::string counted(uint64_t number, const std::string& noun);
// part of whole as "66.2%"; "-" of nothing.
std::string percent(uint64_t part, uint64_t whole);
// original / packed as "1.51"; "-" when nothing is packed.
std::string ratio_text(uint64_t original, uint64_t packed);

}  // namespace brevis::tools
