// SPDX-License-Identifier: Apache-2.0
//
// The service manager's side channel: READY=1, STOPPING=1, WATCHDOG=1 as datagrams to $NOTIFY_SOCKET, without its
// library. All of it does nothing when nobody listens.
//
// Errors:  none; a manager that does not listen must not stop us. Threads: any.
#pragma once

#include <chrono>
#include <string>

namespace brevis::fs {

void notify_manager(const std::string& message);

// How often the manager wants to hear WATCHDOG=1 (half of its limit); zero when it does not.
std::chrono::milliseconds watchdog_interval();

}  // namespace brevis::fs
