// SPDX-License-Identifier: Apache-2.0
//
// Any text as the list of -o, as a size and as the value of every option: it is taken or refused with a reason, and
// what is taken stays within its bounds. fstab lines and mount(8) come in through here.
#include <string>

#include "fuzz/fuzz.h"
#include "options.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace brevis;
  const std::string text(reinterpret_cast<const char*>(data), size);
  fs::Options options;
  const Status taken = fs::set_mount_options(options, text);
  BREVIS_FUZZ_CHECK(taken || !taken.error().message().empty());
  for (const std::string& word : options.mount_options) BREVIS_FUZZ_CHECK(word.find(',') == std::string::npos);
  (void)fs::parse_size(text);
  for (const fs::OptionRow& row : fs::option_table()) {
    fs::Options one;
    (void)fs::set_option(one, row, text, "fuzz");
  }
  return 0;
}
