// SPDX-License-Identifier: Apache-2.0
//
// Does what the sanitizer named on the command line must catch; meson expects it to fail.
#include <climits>
#include <cstdlib>
#include <string_view>
#include <thread>

int main(int argc, char** argv) {
  const std::string_view which = argc > 1 ? argv[1] : "";
  if (which.find("thread") != std::string_view::npos) {
    int shared = 0;
    std::thread other([&] { ++shared; });
    ++shared;
    other.join();
    return 0;
  }
  // Through a volatile pointer, or the compiler would see it too.
  char* volatile freed = static_cast<char*>(std::malloc(16));
  std::free(freed);
  return freed[argc] == 'x' ? 0 : 0;
}
