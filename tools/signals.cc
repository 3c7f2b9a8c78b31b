// SPDX-License-Identifier: Apache-2.0
#include "signals.h"

#include <signal.h>

#include <atomic>

namespace brevis::tools {
namespace {

std::atomic<int> g_signal{0};
static_assert(std::atomic<int>::is_always_lock_free);

// SA_RESETHAND: the second signal meets the default action.
void on_signal(int number) { g_signal.store(number, std::memory_order_relaxed); }

}  // namespace

void catch_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  // A lost terminal, unless nohup asked for it to be ignored.
  struct sigaction hangup = {};
  if (sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN) sigaction(SIGHUP, &action, nullptr);
  signal(SIGXFSZ, SIG_IGN);  // beyond `ulimit -f` writing fails, and what is unfinished is cleared away
}

bool stop_requested() { return g_signal.load(std::memory_order_relaxed) != 0; }

int signal_exit_code() {
  const int number = g_signal.load(std::memory_order_relaxed);
  return number == 0 ? 0 : 128 + number;
}

}  // namespace brevis::tools
