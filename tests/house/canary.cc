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
  volatile char* freed = static_cast<char*>(std::malloc(16));
  std::free(const_cast<char*>(freed));
  return freed[argc] == 1 ? 0 : 0;
}
