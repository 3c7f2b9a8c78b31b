// SPDX-License-Identifier: Apache-2.0
#include "metrics.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <limits>

#include "brevis/version.h"

namespace brevis::fs {

namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

struct Row {
  const char* name;    // of stats and the log
  const char* metric;  // of Prometheus, after "brevis_"
  const char* help;
  MetricType type;
  uint64_t (*get)(const Numbers&);
  double scale = 1;  // Prometheus wants seconds
};

constexpr MetricType kCounter = MetricType::Counter, kGauge = MetricType::Gauge;

#define VOLUME(field) [](const Numbers& n) -> uint64_t { return n.volume.field; }
#define WATCH(field) [](const Numbers& n) -> uint64_t { return n.watch.field; }
constexpr Row kRows[] = {
    {"reads", "reads_total", "Reads answered or under way.", kCounter, VOLUME(reads)},
    {"bytes_read", "read_bytes_total", "Bytes of original files given to readers.", kCounter, VOLUME(bytes_read)},
    {"frames_decoded", "frames_decoded_total", "Frames read, checked and decoded.", kCounter, VOLUME(frames_decoded)},
    {"decoded_bytes", "decoded_bytes_total", "Bytes of original files decoded.", kCounter, VOLUME(decoded_bytes)},
    {"decode_ms", "decode_seconds_total", "Spent in decoding, over all threads.", kCounter,
     [](const Numbers& n) -> uint64_t { return n.volume.decode_ns / 1'000'000; }, 1e-3},
    {"source_ms", "source_seconds_total", "Spent in reading stored frames, over all threads.", kCounter,
     [](const Numbers& n) -> uint64_t { return n.volume.source_ns / 1'000'000; }, 1e-3},
    {"frame_hits", "frame_cache_hits_total", "Frames found decoded in memory.", kCounter, VOLUME(frame_hits)},
    {"frame_misses", "frame_cache_misses_total", "Frames looked for in memory in vain.", kCounter,
     VOLUME(frame_misses)},
    {"flights_joined", "flights_joined_total", "Reads that waited for a frame another read was decoding.", kCounter,
     VOLUME(flights_joined)},
    {"evictions", "frame_cache_evictions_total", "Decoded frames dropped from memory for others.", kCounter,
     VOLUME(evictions)},
    {"damaged_frames", "damaged_frames_total", "Frames that failed their checksum or could not be decoded.", kCounter,
     VOLUME(damaged_frames)},
    {"cache_bytes", "frame_cache_bytes", "Memory held by decoded frames and by buffers kept for the next.", kGauge,
     VOLUME(cache_bytes)},
    {"index_bytes", "index_bytes", "Memory held by archives' indexes.", kGauge, VOLUME(index_bytes)},
    {"open_files", "open_files", "Open files.", kGauge, VOLUME(open_files)},
    {"open_archives", "open_archives", "Archives held open.", kGauge, VOLUME(open_archives)},
    {"disk_hits", "disk_cache_hits_total", "Frames found in the cache on disk.", kCounter, VOLUME(disk_hits)},
    {"disk_misses", "disk_cache_misses_total", "Frames looked for there in vain.", kCounter, VOLUME(disk_misses)},
    {"disk_hit_bytes", "disk_cache_hit_bytes_total", "Bytes served from there.", kCounter, VOLUME(disk_hit_bytes)},
    {"disk_written_bytes", "disk_cache_written_bytes_total", "Bytes written there.", kCounter,
     VOLUME(disk_written_bytes)},
    {"disk_evictions", "disk_cache_evictions_total", "Frames dropped from there for others.", kCounter,
     VOLUME(disk_evictions)},
    {"disk_unworthy", "disk_cache_unworthy_total", "Frames not kept there, as fetching them again costs less.",
     kCounter, VOLUME(disk_unworthy)},
    {"disk_dropped", "disk_cache_dropped_total", "Frames not kept there, as the disk could not follow.", kCounter,
     VOLUME(disk_dropped)},
    {"disk_faults", "disk_cache_faults_total",
     "Calls to the cache on disk that failed, and blocks that were not what they should be.", kCounter,
     VOLUME(disk_faults)},
    {"disk_rebuilds", "disk_cache_rebuilds_total", "Times the cache on disk was thrown away and begun anew.", kCounter,
     VOLUME(disk_rebuilds)},
    {"disk_bytes", "disk_cache_bytes", "Bytes held by the cache on disk.", kGauge, VOLUME(disk_bytes)},
    {"disk_entries", "disk_cache_entries", "Frames held there.", kGauge, VOLUME(disk_entries)},
    {"disk_capacity", "disk_cache_capacity_bytes", "Bytes it may hold; 0: there is none.", kGauge,
     VOLUME(disk_capacity)},
    {"ahead_streams", "ahead_streams_total", "Sequential readers recognised.", kCounter, VOLUME(ahead_streams)},
    {"ahead_frames", "ahead_frames_total", "Frames decoded before anybody asked.", kCounter, VOLUME(ahead_frames)},
    {"ahead_used", "ahead_used_total", "Of those: asked for later.", kCounter, VOLUME(ahead_used)},
    {"ahead_wasted", "ahead_wasted_total", "Of those: dropped unasked.", kCounter, VOLUME(ahead_wasted)},
    {"pushes", "pushes_total", "Blocks pushed into the kernel's page cache.", kCounter, VOLUME(pushes)},
    {"pushed_bytes", "pushed_bytes_total", "Bytes of those.", kCounter, VOLUME(pushed_bytes)},
    {"pushes_refused", "pushes_refused_total", "Pushes that the kernel refused.", kCounter, VOLUME(pushes_refused)},
    {"archives", "archives", "Archives in the tree when it was looked at last.", kGauge, WATCH(archives)},
    {"directories", "directories", "Directories in the tree when it was looked at last.", kGauge, WATCH(directories)},
    {"archives_added", "archives_added_total", "Archives that appeared while mounted.", kCounter, WATCH(added)},
    {"archives_replaced", "archives_replaced_total", "Archives replaced while mounted.", kCounter, WATCH(replaced)},
    {"archives_removed", "archives_removed_total", "Archives that vanished while mounted.", kCounter, WATCH(removed)},
    {"rescans", "rescans_total", "Times the whole tree was looked at again.", kCounter, WATCH(rescans)},
    {"lost_events", "lost_events_total", "Times the system dropped events of changes.", kCounter, WATCH(lost)},
};
#undef VOLUME
#undef WATCH

ClientMetric valued(MetricType type, double value) {
  ClientMetric metric;
  (type == kCounter ? metric.counter.value : metric.gauge.value) = value;
  return metric;
}

MetricFamily family(std::string name, std::string help, MetricType type) {
  MetricFamily out;
  out.name = "brevis_" + std::move(name);
  out.help = std::move(help);
  out.type = type;
  return out;
}

MetricFamily latency_family(const Latencies& latencies) {
  MetricFamily out =
      family("request_seconds", "From a request of the kernel to its answer, by operation.", MetricType::Histogram);
  for (size_t i = 0; i < kOperations.size(); ++i) {
    const Histogram& histogram = latencies.at(i);
    ClientMetric metric;
    metric.label.push_back({"operation", std::string(kOperations[i])});
    uint64_t below = 0;
    for (size_t bucket = 0; bucket <= Histogram::kBounds; ++bucket) {
      below += histogram.bucket(bucket);
      const double bound = bucket == Histogram::kBounds ? std::numeric_limits<double>::infinity()
                                                        : static_cast<double>(Histogram::bound_ns(bucket)) / 1e9;
      metric.histogram.bucket.push_back({below, bound});
    }
    metric.histogram.sample_count = below;
    metric.histogram.sample_sum = static_cast<double>(histogram.sum_ns()) / 1e9;
    out.metric.push_back(std::move(metric));
  }
  return out;
}

}  // namespace

std::string metrics_text(const Numbers& numbers) {
  std::vector<MetricFamily> families;
  for (const Row& row : kRows) {
    families.push_back(family(row.metric, row.help, row.type));
    families.back().metric.push_back(valued(row.type, static_cast<double>(row.get(numbers)) * row.scale));
  }
  families.push_back(family("uptime_seconds", "Since the start of the daemon.", kGauge));
  families.back().metric.push_back(valued(kGauge, static_cast<double>(numbers.uptime.count())));
  families.push_back(
      family("tree_events", "1 when the file system tells of changes, 0 when only rescans find them.", kGauge));
  families.back().metric.push_back(valued(kGauge, numbers.watch.told ? 1 : 0));
  families.push_back(family("build_info", "Version of the daemon.", kGauge));
  ClientMetric build = valued(kGauge, 1);
  build.label.push_back({"version", BREVIS_VERSION});
  families.back().metric.push_back(std::move(build));
  if (numbers.latencies) families.push_back(latency_family(*numbers.latencies));
  return prometheus::TextSerializer().Serialize(families);
}

std::vector<ControlFact> metrics_facts(const Numbers& numbers) {
  std::vector<ControlFact> counters, latencies;
  for (const Row& row : kRows) counters.push_back(ControlFact::of(row.name, row.get(numbers)));
  for (size_t i = 0; numbers.latencies && i < kOperations.size(); ++i) {
    const Histogram& histogram = numbers.latencies->at(i);
    const uint64_t count = histogram.count();
    const auto ms = [](double ns) { return ns / 1e6; };
    latencies.push_back(ControlFact::of(
        std::string(kOperations[i]),
        {ControlFact::of("count", count),
         ControlFact::of("mean_ms",
                         count == 0 ? 0 : ms(static_cast<double>(histogram.sum_ns()) / static_cast<double>(count))),
         ControlFact::of("p50_below_ms", ms(static_cast<double>(histogram.at_most_ns(500)))),
         ControlFact::of("p99_below_ms", ms(static_cast<double>(histogram.at_most_ns(990))))}));
  }
  return {ControlFact::of("uptime_seconds", static_cast<uint64_t>(numbers.uptime.count())),
          ControlFact::yes_no("tree_events", numbers.watch.told), ControlFact::of("counters", std::move(counters)),
          ControlFact::of("requests", std::move(latencies))};
}

LogFields metrics_fields(const Numbers& numbers) {
  LogFields fields;
  for (const Row& row : kRows) fields.emplace_back(row.name, std::to_string(row.get(numbers)));
  return fields;
}

}  // namespace brevis::fs
