// SPDX-License-Identifier: Apache-2.0
#include "output.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <new>

#include "brevis/log.h"
#include "brevis/process.h"
#include "signals.h"

namespace brevis::tools {
namespace {

std::string g_program = "brevis";
std::mutex g_stderr;
constexpr const char* kClearLine = "\r\033[K";
bool g_foot_drawn = false;  // under g_stderr

void write_line(std::string_view kind, std::string_view message) {
  std::string line = g_program + ": ";
  line.append(kind).append(message).append("\n");
  const std::lock_guard lock(g_stderr);
  if (g_foot_drawn) std::fputs(kClearLine, stderr);
  g_foot_drawn = false;
  std::fwrite(line.data(), 1, line.size(), stderr);
}

bool exists(const std::string& path) {
  std::error_code failed;
  return std::filesystem::exists(std::filesystem::symlink_status(path, failed));
}

// Columns that a text takes: characters, not bytes. Wide and combining ones are counted as one.
size_t columns_of(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xc0) != 0x80; }));
}

}  // namespace

void set_program_name(std::string_view name) { g_program = name; }

void draw_foot_line(std::string_view line) {
  std::string text = "\r";
  text.append(line).append("\033[K");
  const std::lock_guard lock(g_stderr);
  std::fwrite(text.data(), 1, text.size(), stderr);
  g_foot_drawn = true;
}

void clear_foot_line() {
  const std::lock_guard lock(g_stderr);
  if (g_foot_drawn) std::fputs(kClearLine, stderr);
  g_foot_drawn = false;
}

void install_log_sink(int verbosity) {
  constexpr LogLevel kLevels[] = {LogLevel::error, LogLevel::warning, LogLevel::info, LogLevel::debug};
  set_log_level(kLevels[std::clamp(verbosity, -1, 2) + 1]);
  set_log_sink([](LogLevel level, std::string_view message, const LogFields& fields) {
    std::string text = printable(message);
    for (const auto& [name, value] : fields) text.append(" ").append(name).append("=").append(printable(value));
    write_line(std::string(log_level_name(level)) + ": ", text);
  });
}

void print_error(std::string_view message) { write_line("", printable(message)); }
void print_warning(std::string_view message) { write_line("warning: ", printable(message)); }

int report(const Error& error) {
  if (error.kind() == Errc::cancelled && signal_exit_code() != 0) return signal_exit_code();
  print_error(error.message());
  return to_exit_code(error);
}

int file_exit_code(const Error& error, const std::string& source, const std::string& target) {
  switch (error.kind()) {
    case Errc::not_found:
      if (error.os_errno() == ENOENT && !target.empty() && exists(source)) return kExitCannotCreate;
      break;
    case Errc::invalid_argument:
      if (!target.empty() && exists(target)) return kExitCannotCreate;
      break;
    case Errc::io: {
      const int number = error.os_errno();
      if (number == EROFS || number == ENOTDIR || number == EISDIR || number == ENAMETOOLONG) return kExitCannotCreate;
      break;
    }
    default: break;
  }
  return to_exit_code(error);
}

std::string printable(std::string_view text) {
  constexpr char kHex[] = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<uint8_t>(text[i]);
    // U+0080..U+009F steer terminals too; in UTF-8 they are C2 80..C2 9F.
    const bool c1 = c == 0xc2 && i + 1 < text.size() && static_cast<uint8_t>(text[i + 1]) < 0xa0;
    if (c < 0x20 || c == 0x7f || c1) {
      const uint8_t shown = c1 ? static_cast<uint8_t>(text[++i]) : c;
      out.append("\\x").append(1, kHex[shown >> 4]).append(1, kHex[shown & 15]);
    } else {
      out += text[i];
    }
  }
  return out;
}

bool stdout_has_color() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) && (!no_color || !*no_color) && term && std::strcmp(term, "dumb") != 0;
}

void Table::print() const {
  std::vector<size_t> widths;
  for (const Column& column : columns_) widths.push_back(columns_of(column.title));
  for (const auto& row : rows_)
    for (size_t i = 0; i < row.size() && i < widths.size(); ++i) widths[i] = std::max(widths[i], columns_of(row[i]));
  const auto line = [&](const auto& cell_of, size_t count) {
    std::string text;
    for (size_t i = 0; i < count; ++i) {
      const std::string& cell = cell_of(i);
      const std::string blanks(widths[i] - columns_of(cell), ' ');
      if (i != 0) text += "  ";
      text += columns_[i].lean == Lean::right ? blanks + cell : cell + blanks;
    }
    text.erase(text.find_last_not_of(' ') + 1);
    return text;
  };
  const bool color = stdout_has_color();
  const std::string titles = line([&](size_t i) -> const std::string& { return columns_[i].title; }, columns_.size());
  std::printf(color ? "\033[1m%s\033[0m\n" : "%s\n", titles.c_str());
  for (const auto& row : rows_) {
    const std::string text = line([&](size_t i) -> const std::string& { return row[i]; }, row.size());
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fputc('\n', stdout);
  }
}

int finish_output(int exit_code) {
  const bool failed = std::fflush(stdout) != 0 || std::ferror(stdout) != 0;
  if (!failed) return exit_code;
  print_error(std::string("writing to standard output: ") + std::strerror(errno));
  return exit_code == kExitFine || exit_code == kExitDifferent ? kExitWrite : exit_code;
}

int run_guarded(const std::function<int()>& body) {
  hold_standard_streams();
  catch_signals();
  int code = kExitInternal;
  try {
    code = body();
  } catch (const std::bad_alloc&) {
    print_error("out of memory; --memory and --jobs set how much is used");
  } catch (const std::exception& error) {
    print_error(std::string("internal fault: ") + error.what());
  }
  return finish_output(code);
}

}  // namespace brevis::tools
