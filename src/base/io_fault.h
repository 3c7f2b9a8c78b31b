// SPDX-License-Identifier: Apache-2.0
//
// What the two halves of io.h share: asking the fault hook, and wording.
//
// Errors:  none. Threads: any thread. Owns: nothing.
#pragma once

#include <sys/stat.h>

#include <string>

#include "base/io.h"

namespace brevis::io_detail {

// The errno that the fault hook wants this call to fail with, 0 without a hook.
int injected_fault(const char* call, const std::string& path, uint64_t offset);

// "verb 'path'".
inline std::string doing(const char* verb, const std::string& path) {
  return std::string(verb).append(" '").append(path).append("'");
}

FileStat to_file_stat(const struct stat& st);

// pread until `out` is full or the file ends; the number of bytes read.
Result<size_t> read_at(int fd, const std::string& path, uint64_t offset, MutByteSpan out);

// The same, but a file that ends early is `truncated`.
Status read_exact_at(int fd, const std::string& path, uint64_t offset, MutByteSpan out);

}  // namespace brevis::io_detail
