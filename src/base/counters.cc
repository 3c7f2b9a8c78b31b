// SPDX-License-Identifier: Apache-2.0
#include "brevis/counters.h"

namespace brevis {
namespace {

constexpr CounterRow kRows[] = {
    {"reads", &VolumeCounters::reads, false},
    {"bytes_read", &VolumeCounters::bytes_read, false},
    {"frame_hits", &VolumeCounters::frame_hits, false},
    {"frame_misses", &VolumeCounters::frame_misses, false},
    {"flights_joined", &VolumeCounters::flights_joined, false},
    {"frames_decoded", &VolumeCounters::frames_decoded, false},
    {"decoded_bytes", &VolumeCounters::decoded_bytes, false},
    {"decode_ns", &VolumeCounters::decode_ns, false},
    {"source_ns", &VolumeCounters::source_ns, false},
    {"evictions", &VolumeCounters::evictions, false},
    {"damaged_frames", &VolumeCounters::damaged_frames, false},
    {"cache_bytes", &VolumeCounters::cache_bytes, true},
    {"index_bytes", &VolumeCounters::index_bytes, true},
    {"open_files", &VolumeCounters::open_files, true},
    {"open_archives", &VolumeCounters::open_archives, true},
    {"disk_hits", &VolumeCounters::disk_hits, false},
    {"disk_misses", &VolumeCounters::disk_misses, false},
    {"disk_hit_bytes", &VolumeCounters::disk_hit_bytes, false},
    {"disk_written_bytes", &VolumeCounters::disk_written_bytes, false},
    {"disk_evictions", &VolumeCounters::disk_evictions, false},
    {"disk_unworthy", &VolumeCounters::disk_unworthy, false},
    {"disk_dropped", &VolumeCounters::disk_dropped, false},
    {"disk_faults", &VolumeCounters::disk_faults, false},
    {"disk_rebuilds", &VolumeCounters::disk_rebuilds, false},
    {"disk_bytes", &VolumeCounters::disk_bytes, true},
    {"disk_entries", &VolumeCounters::disk_entries, true},
    {"disk_capacity", &VolumeCounters::disk_capacity, true},
    {"ahead_streams", &VolumeCounters::ahead_streams, false},
    {"ahead_frames", &VolumeCounters::ahead_frames, false},
    {"ahead_used", &VolumeCounters::ahead_used, false},
    {"ahead_wasted", &VolumeCounters::ahead_wasted, false},
    {"pushes", &VolumeCounters::pushes, false},
    {"pushed_bytes", &VolumeCounters::pushed_bytes, false},
    {"pushes_refused", &VolumeCounters::pushes_refused, false},
};
static_assert(sizeof kRows / sizeof kRows[0] == sizeof(VolumeCounters) / sizeof(uint64_t), "a row for each counter");

}  // namespace

std::span<const CounterRow> counter_table() { return kRows; }

}  // namespace brevis
