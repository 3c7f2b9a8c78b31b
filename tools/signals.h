// SPDX-License-Identifier: Apache-2.0
//
// SIGINT, SIGTERM and SIGHUP ask the work at hand to stop: it ends early, leaves no unfinished file under a final name,
// and the program ends with 130 or 143. A second signal ends the program at once.
//
// Threads: any thread may ask.
#pragma once

namespace brevis::tools {

void catch_signals();
// A signal has come.
bool stop_requested();
// 130 or 143 after a signal, else 0.
int signal_exit_code();

}  // namespace brevis::tools
