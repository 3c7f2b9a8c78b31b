// SPDX-License-Identifier: Apache-2.0
//
// Does what the sanitizer named on the command line must catch; meson expects it to fail.
#include <climits>
#include <cstdlib>
#include <string_view>
#include <thread>

namespace {

// What is never looked at would be optimised away, and with it the fault.
volatile int seen;

}  // namespace

int main(int argc, char** argv) {
  const std::string_view which = argc > 1 ? argv[1] : "";
  if (which == "thread") {
    int shared = 0;
    std::thread other([&] { ++shared; });
    ++shared;
    other.join();
    seen = shared;
  } else if (which == "undefined") {
    seen = INT_MAX;
    seen = seen + argc;
  } else {
    // Through a volatile pointer, or the compiler would see it too.
    char* volatile freed = static_cast<char*>(std::malloc(16));
    std::free(freed);
    seen = freed[argc];
  }
  return 0;
}
