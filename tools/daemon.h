// SPDX-License-Identifier: Apache-2.0
//
// Asking the daemon of a mount: one request, its progress, its answer.
//
// Errors:  those of control.h; an answer that tells of a failure is an Error of its kind. Threads: one.
#pragma once

#include <optional>
#include <string>

#include "brevis/control.h"
#include "json_output.h"
#include "progress.h"

namespace brevis::tools {

struct DaemonAnswer {
  Json json;
  std::optional<Error> error;  // the daemon said no
  int exit_code = 0;
};

// `file`: handed over with the request. `bar`, when there is one, shows how far the daemon is with it.
Result<DaemonAnswer> ask_daemon(ControlClient& client, const Json& request, const std::string& file = {},
                                ProgressBar* bar = nullptr);

}  // namespace brevis::tools
