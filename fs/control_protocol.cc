// SPDX-License-Identifier: Apache-2.0
#include "control_protocol.h"

#include <nlohmann/json.hpp>

#include "brevis/control.h"

namespace brevis::fs {

namespace {

using Json = nlohmann::ordered_json;

Error bad(std::string message) { return make_error(Errc::invalid_argument, "control request: " + std::move(message)); }

// Which command may carry which fields.
struct CommandRow {
  const char* name;
  ControlCommand command;
  bool takes_path, takes_replace;
};
constexpr CommandRow kCommands[] = {{"stats", ControlCommand::stats, false, false},
                                    {"rescan", ControlCommand::rescan, false, false},
                                    {"put", ControlCommand::put, true, true},
                                    {"remove", ControlCommand::remove, true, false}};

// Deep nesting is refused as it is read, before anything is built of it.
Json parse_bounded(std::string_view line, bool& too_deep) {
  constexpr int kMostDepth = 4;
  const auto guard = [&](int depth, Json::parse_event_t event, Json&) {
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    too_deep = too_deep || (opens && depth >= kMostDepth);
    return !too_deep;
  };
  return Json::parse(line.begin(), line.end(), guard, false);
}

Json to_json(const std::vector<ControlFact>& facts) {
  Json out = Json::object();
  for (const ControlFact& fact : facts) {
    switch (fact.kind) {
      case ControlFact::Kind::number: out[fact.name] = fact.number; break;
      case ControlFact::Kind::real: out[fact.name] = fact.real; break;
      case ControlFact::Kind::text: out[fact.name] = fact.text; break;
      case ControlFact::Kind::yes_no: out[fact.name] = fact.number != 0; break;
      case ControlFact::Kind::group: out[fact.name] = to_json(fact.group); break;
    }
  }
  return out;
}

std::string line_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

}  // namespace

Result<ControlRequest> parse_control_request(std::string_view line) {
  if (line.size() > kMaxControlRequest) return bad("longer than 64 KiB");
  bool too_deep = false;
  const Json json = parse_bounded(line, too_deep);
  if (too_deep) return bad("nested too deeply");
  if (!json.is_object()) return bad("no JSON object on one line");
  const auto command = json.find("command");
  if (command == json.end() || !command->is_string()) return bad("'command' is missing or no text");
  const CommandRow* row = nullptr;
  for (const CommandRow& known : kCommands)
    if (command->get_ref<const std::string&>() == known.name) row = &known;
  if (!row) return bad("this daemon has no such command");
  ControlRequest request;
  request.command = row->command;
  for (const auto& [name, value] : json.items()) {
    if (name == "command") continue;
    if (name == "schema") {
      if (!value.is_number_integer() || value != 1) return bad("only schema 1 is understood");
    } else if (name == "path" && row->takes_path) {
      if (!value.is_string()) return bad("'path' is no text");
      request.path = value.get<std::string>();
    } else if (name == "replace" && row->takes_replace) {
      if (!value.is_boolean()) return bad("'replace' is neither true nor false");
      request.replace = value.get<bool>();
    } else {
      return bad("a field that " + std::string(row->name) + " does not have");
    }
  }
  if (row->takes_path && request.path.empty()) return bad("'path' is missing");
  return request;
}

std::string control_answer(const std::vector<ControlFact>& facts) {
  Json json = {{"schema", 1}};
  json.update(to_json(facts));
  return line_of(json);
}

std::string control_failure(const Error& error, int exit_code) {
  return line_of({{"schema", 1},
                  {"error", {{"kind", errc_name(error.kind())}, {"message", error.message()}}},
                  {"exit_code", exit_code}});
}

std::string control_progress(uint64_t done, uint64_t all) {
  return line_of({{"schema", 1}, {"progress", {{"done", done}, {"all", all}}}});
}

}  // namespace brevis::fs
