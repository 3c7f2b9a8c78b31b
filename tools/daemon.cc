// SPDX-License-Identifier: Apache-2.0
#include "daemon.h"

namespace brevis::tools {

namespace {

Error odd_answer() {
  return make_error(Errc::corrupt, "the daemon's answer cannot be understood: is it of another version?");
}

Errc kind_named(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(Errc::internal); ++i)
    if (errc_name(static_cast<Errc>(i)) == name) return static_cast<Errc>(i);
  return Errc::internal;
}

// The failure that an answer tells of, if it does.
Result<std::optional<Error>> failure_in(const Json& json) {
  const auto error = json.find("error");
  if (error == json.end()) return std::optional<Error>();
  if (!error->is_object() || !error->contains("kind") || !error->contains("message")) return odd_answer();
  if (!(*error)["kind"].is_string() || !(*error)["message"].is_string()) return odd_answer();
  return std::optional<Error>(
      make_error(kind_named((*error)["kind"].get<std::string>()), (*error)["message"].get<std::string>()));
}

}  // namespace

Result<DaemonAnswer> ask_daemon(ControlClient& client, const Json& request, const std::string& file, ProgressBar* bar) {
  BREVIS_TRY(client.send(request.dump(-1, ' ', false, Json::error_handler_t::replace), file));
  for (;;) {
    BREVIS_ASSIGN(const std::string line, client.receive());
    DaemonAnswer answer;
    answer.json = Json::parse(line, nullptr, false);
    if (!answer.json.is_object()) return odd_answer();
    if (const auto progress = answer.json.find("progress"); progress != answer.json.end()) {
      if (bar && progress->is_object())
        bar->update(file, progress->value("done", uint64_t{0}), progress->value("all", uint64_t{0}));
      continue;
    }
    BREVIS_ASSIGN(answer.error, failure_in(answer.json));
    if (answer.error) {
      const auto code = answer.json.find("exit_code");
      answer.exit_code =
          code != answer.json.end() && code->is_number_integer() ? code->get<int>() : to_exit_code(*answer.error);
    }
    return answer;
  }
}

}  // namespace brevis::tools
