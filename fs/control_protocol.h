// SPDX-License-Identifier: Apache-2.0
//
// What the lines on the control socket say (docs/control.md): the gate through which a stranger's line becomes a
// request, and the answers. The only place in fs/ that knows JSON.
//
// Requires: nothing of a line: every byte is untrusted; its length is bounded by whoever read it.
// Errors:   invalid_argument, saying what is wrong with the line. Threads: pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "brevis/error.h"

namespace brevis::fs {

enum class ControlCommand : uint8_t { stats, rescan, put, remove };

struct ControlRequest {
  ControlCommand command = ControlCommand::stats;
  std::string path;      // put, remove: below the source, or as readers see it
  bool replace = false;  // put
};

// One line without its newline. An unknown command or field is an error: what a newer client asks is not half done.
Result<ControlRequest> parse_control_request(std::string_view line);

// Facts of an answer, in their order: numbers, texts and groups of them.
struct ControlFact {
  enum class Kind : uint8_t { number, real, text, yes_no, group };
  std::string name;
  Kind kind = Kind::number;
  uint64_t number = 0;
  double real = 0;
  std::string text;
  std::vector<ControlFact> group;

  static ControlFact of(std::string name, uint64_t value) { return {std::move(name), Kind::number, value, 0, {}, {}}; }
  static ControlFact of(std::string name, double value) { return {std::move(name), Kind::real, 0, value, {}, {}}; }
  static ControlFact of(std::string name, std::string value) {
    return {std::move(name), Kind::text, 0, 0, std::move(value), {}};
  }
  static ControlFact yes_no(std::string name, bool value) { return {std::move(name), Kind::yes_no, value, 0, {}, {}}; }
  static ControlFact of(std::string name, std::vector<ControlFact> group) {
    return {std::move(name), Kind::group, 0, 0, {}, std::move(group)};
  }
};

// Lines with their newline.
std::string control_answer(const std::vector<ControlFact>& facts);
std::string control_failure(const Error& error, int exit_code);
std::string control_progress(uint64_t done, uint64_t all);

}  // namespace brevis::fs
