// SPDX-License-Identifier: Apache-2.0
//
// The daemon's numbers, once: one table gives the Prometheus text, the facts of `brevis stats` and the line that
// SIGUSR1 logs. A new number is a row in metrics.cc. The only place that names the Prometheus library.
//
// Errors:  none. Threads: any. Owns: nothing.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "brevis/living.h"
#include "brevis/log.h"
#include "brevis/volume.h"
#include "control_protocol.h"
#include "latency.h"

namespace brevis::fs {

// A look at everything that counts.
struct Numbers {
  VolumeCounters volume;
  WatchCounters watch;
  std::chrono::seconds uptime{0};
  const Latencies* latencies = nullptr;  // may be missing
};

std::string metrics_text(const Numbers& numbers);
// A group of counters and one of latencies in milliseconds.
std::vector<ControlFact> metrics_facts(const Numbers& numbers);
LogFields metrics_fields(const Numbers& numbers);

}  // namespace brevis::fs
