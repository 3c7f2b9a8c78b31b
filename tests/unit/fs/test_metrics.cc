// SPDX-License-Identifier: Apache-2.0
#include "metrics.h"

#include <doctest/doctest.h>

#include "metrics_connection.h"

using namespace brevis;
using namespace brevis::fs;

TEST_CASE("numbers come out in every form") {
  Latencies latencies;
  latencies.of("read").observe(std::chrono::microseconds(10));
  latencies.of("read").observe(std::chrono::milliseconds(2));
  latencies.of("nobody knows").observe(std::chrono::hours(1));
  Numbers numbers;
  numbers.volume.reads = 7;
  numbers.volume.damaged_frames = 2;
  numbers.volume.disk_faults = 3;
  numbers.volume.decode_ns = 2'500'000'000;
  numbers.watch.archives = 5;
  numbers.latencies = &latencies;
  const std::string text = metrics_text(numbers);
  for (const char* line :
       {"brevis_reads_total 7\n", "brevis_damaged_frames_total 2\n", "brevis_disk_cache_faults_total 3\n",
        "brevis_decode_seconds_total 2.5\n", "# TYPE brevis_archives gauge\nbrevis_archives 5\n",
        "brevis_request_seconds_count{operation=\"read\"} 2\n",
        "brevis_request_seconds_bucket{operation=\"read\",le=\"+Inf\"} 2\n",
        "brevis_request_seconds_bucket{operation=\"other\",le=\"+Inf\"} 1\n"})
    CHECK_MESSAGE(text.find(line) != text.npos, line);
  const std::string facts = control_answer(metrics_facts(numbers));
  CHECK(facts.find("\"damaged_frames\":2") != facts.npos);
  CHECK(facts.find("\"read\":{\"count\":2,\"mean_ms\":1.005") != facts.npos);
  bool logged = false;
  for (const auto& [name, value] : metrics_fields(numbers)) logged = logged || (name == "disk_faults" && value == "3");
  CHECK(logged);
}

TEST_CASE("histograms") {
  Histogram histogram;
  CHECK(histogram.at_most_ns(500) == 0);
  for (int i = 0; i < 99; ++i) histogram.observe(std::chrono::nanoseconds(16'000));
  histogram.observe(std::chrono::nanoseconds(16'001));
  CHECK(histogram.bucket(0) == 99);
  CHECK(histogram.bucket(1) == 1);
  CHECK(histogram.at_most_ns(500) == 16'000);
  CHECK(histogram.at_most_ns(990) == 16'000);
  CHECK(histogram.at_most_ns(1000) == 64'000);
  histogram.observe(std::chrono::hours(100));
  histogram.observe(std::chrono::nanoseconds(-5));
  CHECK(histogram.bucket(Histogram::kBounds) == 1);
  CHECK(histogram.count() == 102);
}

TEST_CASE("as much of HTTP as a scraper speaks") {
  int asked = 0;
  const auto body = [&] {
    ++asked;
    return std::string("x 1\n");
  };
  const auto status = [&](std::string_view head) { return http_answer(head, body).substr(9, 3); };
  CHECK(http_answer("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n", body) ==
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: 4\r\n"
        "Connection: close\r\n\r\nx 1\n");
  CHECK(http_answer("HEAD /metrics HTTP/1.0\r\n\r\n", body).ends_with("\r\n\r\n"));
  CHECK(status("GET / HTTP/1.1\n\n") == "200");
  CHECK(status("GET /metrics?name[]=a HTTP/1.1\r\n\r\n") == "200");
  CHECK(asked == 4);
  CHECK(status("GET /metricsx HTTP/1.1\r\n\r\n") == "404");
  CHECK(status("PUT /metrics HTTP/1.1\r\n\r\n") == "405");
  for (const char* bad : {"", "\r\n\r\n", "GET", "GET /metrics", "GET  HTTP/2", "GET /metrics SPDY/1\r\n\r\n", " "})
    CHECK_MESSAGE(status(bad) == "400", bad);
  CHECK(asked == 4);
}
