// SPDX-License-Identifier: Apache-2.0
#include "log_sink.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>

namespace brevis::fs {

namespace {

enum class Kind : int { stderr_, journal, file, syslog };

// Process-wide because a signal handler has no other way to find it.
struct Target {
  std::atomic<Kind> kind{Kind::stderr_};
  std::atomic<int> fd{STDERR_FILENO};
  LogFormat format = LogFormat::text;
  std::string path;
  void (*last)() noexcept = nullptr;  // before the end
} g_target;

int syslog_priority(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return LOG_DEBUG;
    case LogLevel::info: return LOG_INFO;
    case LogLevel::warning: return LOG_WARNING;
    case LogLevel::error: break;
  }
  return LOG_ERR;
}

std::string timestamp() {
  timespec now = {};
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc = {};
  gmtime_r(&now.tv_sec, &utc);
  std::array<char, 40> text;
  const size_t n = strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S", &utc);
  const std::string ms = std::to_string(1000 + now.tv_nsec / 1'000'000);
  return std::string(text.data(), n) + "." + ms.substr(1) + "Z";
}

constexpr char kHex[] = "0123456789abcdef";

// Names of files and tensors are strangers' bytes: nothing of them may end a line or steer a terminal.
std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte < 0x20 || byte == 0x7f)
      (out += "\\x").append({kHex[byte >> 4], kHex[byte & 15]});
    else
      out += c;
  }
  return out;
}

// A fact of a text line as logfmt has it: in quotes where a blank would end it.
std::string fact(std::string_view value) {
  if (!value.empty() && value.find_first_of(" \"=\\") == value.npos) return printable(value);
  std::string out = "\"";
  for (const char c : printable(value)) {
    if (c == '"') out += '\\';
    out += c;
  }
  return out + '"';
}

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 for none.
size_t utf8_length(std::string_view text) {
  const auto at = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xc2 && first < 0xe0   ? 2
                        : (first & 0xf0) == 0xe0        ? 3
                        : first >= 0xf0 && first < 0xf5 ? 4
                                                        : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((at(i) & 0xc0) != 0x80) return 0;
  if (length > 2) {  // overlong, surrogate, beyond the last code point
    const uint8_t second = at(1);
    if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
        (first == 0xf4 && second > 0x8f))
      return 0;
  }
  return length;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const auto byte = static_cast<uint8_t>(text[0]);
    const size_t length = utf8_length(text);
    if (length == 0 || byte < 0x20 || byte == 0x7f)
      (out += "\\u00").append({kHex[byte >> 4], kHex[byte & 15]});
    else if (byte == '"' || byte == '\\')
      (out += '\\') += text[0];
    else
      out += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + "\"";
}

std::string syslog_prefix(int priority) {
  return "<" + std::to_string(LOG_DAEMON | priority) + ">brevis-mount[" + std::to_string(getpid()) + "]: ";
}

// The system's log socket, or -1.
int connect_syslog() {
  const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, "/dev/log");
  if (connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

void write_line(LogLevel level, std::string_view message, const LogFields& fields) {
  std::string line = g_target.format == LogFormat::json ? format_json(level, message, fields) : "";
  const Kind kind = g_target.kind;
  if (line.empty()) {
    line = format_text(level, message, fields);
    if (kind == Kind::stderr_ || kind == Kind::file) line.insert(0, timestamp() + " ");
  }
  if (kind == Kind::journal) line.insert(0, "<" + std::to_string(syslog_priority(level)) + ">");
  if (kind == Kind::syslog)
    line.insert(0, syslog_prefix(syslog_priority(level)));
  else
    line += '\n';
  [[maybe_unused]] const ssize_t written = ::write(g_target.fd, line.data(), line.size());
}

int open_log(const std::string& path) {
  return open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOCTTY, 0640);
}

// Only async-signal-safe calls from here on.
struct FatalSignal {
  int number;
  const char* name;
};
constexpr FatalSignal kFatal[] = {{SIGSEGV, "SIGSEGV"}, {SIGBUS, "SIGBUS"},   {SIGFPE, "SIGFPE"},
                                  {SIGILL, "SIGILL"},   {SIGABRT, "SIGABRT"}, {SIGSYS, "SIGSYS"}};

void append(char*& at, const char* end, const char* text) {
  while (*text && at < end) *at++ = *text++;
}

void append_number(char*& at, const char* end, unsigned long number) {
  char digits[24];
  size_t n = 0;
  do digits[n++] = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  while (n > 0 && at < end) *at++ = digits[--n];
}

void on_fatal(int number, siginfo_t* info, void*) {
  char line[300];
  char* at = line;
  const char* end = line + sizeof line - 1;
  const char* name = "signal";
  for (const FatalSignal& f : kFatal)
    if (f.number == number) name = f.name;
  const Kind kind = g_target.kind;
  if (kind == Kind::syslog) append(at, end, "<26>brevis-mount: ");
  if (kind == Kind::journal) append(at, end, "<2>");
  const bool json = g_target.format == LogFormat::json;
  append(at, end, json ? "{\"level\":\"error\",\"message\":\"" : "fatal: ");
  append(at, end, "brevis-mount died of ");
  append(at, end, name);
  append(at, end, " (code ");
  append_number(at, end, static_cast<unsigned long>(info->si_code < 0 ? -info->si_code : info->si_code));
  append(at, end, "); start it again: it clears its stale mount");
  append(at, end, json ? "\"}" : "");
  if (kind != Kind::syslog && at < end) *at++ = '\n';
  [[maybe_unused]] const ssize_t written = ::write(g_target.fd, line, static_cast<size_t>(at - line));
  if (g_target.last) g_target.last();
  raise(number);  // SA_RESETHAND: the default action, with its core dump
}

}  // namespace

std::string format_text(LogLevel level, std::string_view message, const LogFields& fields) {
  std::string line(log_level_name(level));
  line += ": " + printable(message);
  for (const auto& [name, value] : fields) ((line += " ") += name) += "=" + fact(value);
  return line;
}

std::string format_json(LogLevel level, std::string_view message, const LogFields& fields) {
  std::string line = "{\"time\":" + quoted(timestamp()) + ",\"level\":" + quoted(log_level_name(level)) +
                     ",\"message\":" + quoted(message);
  for (const auto& [name, value] : fields) line += "," + quoted(name) + ":" + quoted(value);
  return line + "}";
}

Status install_log(const Options& options) {
  g_target.format = options.log_format;
  g_target.path = options.log_file;
  if (!options.log_file.empty()) {
    const int fd = open_log(options.log_file);
    if (fd < 0) return Error::from_errno(errno, "cannot open the log file " + options.log_file);
    // Relative names mean the directory we were started in, which we leave.
    if (char* absolute = realpath(options.log_file.c_str(), nullptr)) {
      g_target.path = absolute;
      std::free(absolute);
    }
    g_target.fd = fd;
    g_target.kind = Kind::file;
  } else if (getenv("JOURNAL_STREAM") != nullptr) {
    g_target.kind = Kind::journal;
  }
  set_log_level(options.log_level());
  set_log_sink(write_line);
  return {};
}

void log_without_terminal() {
  if (g_target.kind == Kind::file) return;
  g_target.fd = connect_syslog();
  g_target.kind = Kind::syslog;
}

void reopen_log() {
  if (g_target.kind != Kind::file) return;
  const int fresh = open_log(g_target.path);
  if (fresh < 0) {
    const Error error = Error::from_errno(errno, "cannot reopen the log file");
    return log(LogLevel::warning, error.message(), {{"path", g_target.path}});
  }
  dup3(fresh, g_target.fd, O_CLOEXEC);  // lines under way go to one file or the other, whole
  close(fresh);
}

void log_fatal_signals(void (*last)() noexcept) {
  g_target.last = last;
  struct sigaction action = {};
  action.sa_sigaction = on_fatal;
  action.sa_flags = SA_SIGINFO | SA_RESETHAND | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (const FatalSignal& f : kFatal) sigaction(f.number, &action, nullptr);
}

}  // namespace brevis::fs
