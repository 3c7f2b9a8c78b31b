// SPDX-License-Identifier: Apache-2.0
//
// The configuration file: flat TOML, a line per option. The only place that knows the TOML library.
#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

#include <cerrno>
#include <fstream>
#include <sstream>

#include "options.h"

namespace brevis::fs {

namespace {

Result<std::string> scalar(const toml::node& node, const std::string& what) {
  if (const auto* s = node.as_string()) return s->get();
  if (const auto* b = node.as_boolean()) return std::string(b->get() ? "true" : "false");
  if (const auto* i = node.as_integer()) return std::to_string(i->get());
  return make_error(Errc::invalid_argument, what + " must be a string, a number or a truth value");
}

}  // namespace

Result<NamedValues> read_config(const std::string& path) {
  errno = 0;
  std::ifstream file(path);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) {
    if (errno == 0) errno = EIO;
    return Error::from_errno(errno, "cannot read the configuration file " + path);
  }
  toml::table table;
  try {
    table = toml::parse(text.str(), path);
  } catch (const toml::parse_error& e) {
    return make_error(Errc::invalid_argument,
                      path + ", line " + std::to_string(e.source().begin.line) + ": " + std::string(e.description()));
  }
  NamedValues values;
  for (auto&& [key, node] : table) {
    const std::string name(key.str()), what = path + ": " + name;
    const OptionRow* row = find_option(name);
    if (!row || row->command_only || name == "config")
      return make_error(Errc::invalid_argument, path + ": unknown option '" + name + "'");
    if (const auto* list = node.as_array()) {  // option = ["noexec", "noatime"]
      for (const toml::node& element : *list) {
        BREVIS_ASSIGN(std::string value, scalar(element, what));
        values.emplace_back(name, std::move(value));
      }
      continue;
    }
    BREVIS_ASSIGN(std::string value, scalar(node, what));
    values.emplace_back(name, std::move(value));
  }
  return values;
}

}  // namespace brevis::fs
