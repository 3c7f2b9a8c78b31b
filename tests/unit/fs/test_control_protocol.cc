// SPDX-License-Identifier: Apache-2.0
#include "control_protocol.h"

#include <doctest/doctest.h>

#include "brevis/control.h"

using namespace brevis;
using namespace brevis::fs;

TEST_CASE("requests") {
  CHECK(parse_control_request(R"({"command": "stats"})").value().command == ControlCommand::stats);
  CHECK(parse_control_request(R"({"schema": 1, "command": "rescan"})").value().command == ControlCommand::rescan);
  const auto put = parse_control_request(R"({"command":"put","path":"a/\u00e9.brv","replace":true})").value();
  CHECK(put.command == ControlCommand::put);
  CHECK(put.path == "a/\xc3\xa9.brv");
  CHECK(put.replace);
  CHECK_FALSE(parse_control_request(R"({"command":"put","path":"a"})").value().replace);
  CHECK(parse_control_request(R"({"command":"remove","path":"a"})").value().command == ControlCommand::remove);
}

TEST_CASE("what is no request is refused, whatever it is") {
  const std::string deep(60'000, '[');
  for (const std::string& line : {std::string(),
                                  std::string("null"),
                                  std::string("[]"),
                                  std::string("7"),
                                  std::string("{"),
                                  std::string("{}"),
                                  std::string(R"({"command":7})"),
                                  std::string(R"({"command":"stop"})"),
                                  std::string(R"({"command":"stats"} x)"),
                                  std::string(R"({"command":"stats","path":"a"})"),
                                  std::string(R"({"command":"stats","more":1})"),
                                  std::string(R"({"command":"put"})"),
                                  std::string(R"({"command":"put","path":""})"),
                                  std::string(R"({"command":"put","path":1})"),
                                  std::string(R"({"command":"put","path":"a","replace":"yes"})"),
                                  std::string(R"({"command":"remove","path":"a","replace":true})"),
                                  std::string(R"({"command":"stats","schema":2})"),
                                  std::string(R"({"command":"stats","schema":1.0})"),
                                  std::string(R"({"command":"stats","schema":"1"})"),
                                  std::string("{\"command\":\"st\xff\"}"),
                                  deep,
                                  deep + "1" + std::string(60'000, ']'),
                                  R"({"command":"stats","x":)" + std::string(1000, '{'),
                                  std::string(R"({"command":"stats","x":[[[[[[]]]]]]})"),
                                  std::string(kMaxControlRequest + 1, ' ')}) {
    const auto request = parse_control_request(line);
    REQUIRE_MESSAGE(!request, line.substr(0, 60));
    CHECK(request.error().kind() == Errc::invalid_argument);
    CHECK(request.error().message().size() < 200);
  }
}

TEST_CASE("answers are one line each, whatever is in them") {
  const std::string answer = control_answer(
      {ControlFact::of("n", uint64_t{18446744073709551615u}), ControlFact::of("text", std::string("a\n\"\xff")),
       ControlFact::yes_no("yes", true), ControlFact::of("half", 0.5),
       ControlFact::of("group", std::vector<ControlFact>{ControlFact::of("in", uint64_t{1})})});
  CHECK(answer ==
        "{\"schema\":1,\"n\":18446744073709551615,\"text\":\"a\\n\\\"\xef\xbf\xbd\",\"yes\":true,\"half\":0.5,"
        "\"group\":{\"in\":1}}\n");
  CHECK(control_failure(make_error(Errc::busy, "no"), 75) ==
        "{\"schema\":1,\"error\":{\"kind\":\"busy\",\"message\":\"no\"},\"exit_code\":75}\n");
  CHECK(control_progress(1, 2) == "{\"schema\":1,\"progress\":{\"done\":1,\"all\":2}}\n");
  CHECK(control_answer({}) == "{\"schema\":1}\n");
}
