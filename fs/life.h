// SPDX-License-Identifier: Apache-2.0
//
// The daemon's own life beside the requests: signals, readiness, the service manager, the end.
//
//   SIGTERM, SIGINT  unmount; with files open detach and serve them for the grace time; a second one ends at once
//   SIGHUP           look again at the tree, reopen the log file
//   SIGUSR1          log the counters
//
// Errors:  unavailable when the mount never answered, io when the connection was cut while mounted.
// Threads: one, the one that called.
#pragma once

#include "background.h"
#include "brevis/error.h"
#include "brevis/volume.h"
#include "guard.h"
#include "options.h"
#include "session.h"
#include "side_doors.h"

namespace brevis::fs {

// Call before any thread is made: threads inherit what is blocked here.
void block_signals();

// From the started session to its end. Tells `background` and the service manager when the mount answers.
Status run_until_end(Session& session, SideDoors& doors, Guard& guard, const Options& options, Background& background);

}  // namespace brevis::fs
