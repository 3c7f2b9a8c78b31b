// SPDX-License-Identifier: Apache-2.0
//
// Lines of strangers at the control socket: any bytes give a request within its bounds or a short refusal; the rest of
// the input is a request's head at the metrics' address.
#include "../../fs/control_protocol.h"
#include "../../fs/metrics_connection.h"
#include "brevis/control.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace brevis;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto request = fs::parse_control_request(text);
  if (request) {
    BREVIS_FUZZ_CHECK(request->path.size() <= kMaxControlRequest);
    const bool takes_path =
        request->command == fs::ControlCommand::put || request->command == fs::ControlCommand::remove;
    BREVIS_FUZZ_CHECK(takes_path != request->path.empty());
  } else {
    const std::string line = fs::control_failure(request.error(), 2);
    BREVIS_FUZZ_CHECK(line.size() < 1024 && line.find('\n') == line.size() - 1);
  }
  const std::string answer = fs::http_answer(text, [] { return std::string("x 1\n"); });
  BREVIS_FUZZ_CHECK(answer.starts_with("HTTP/1.1 ") && answer.size() < 1024);
  return 0;
}
