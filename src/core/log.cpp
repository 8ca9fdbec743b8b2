#include "core/log.hpp"

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>
#include <unordered_set>

#include "core/env.hpp"
#include "core/text.hpp"

namespace deepgemm::log {
namespace {

std::atomic<Sink> current_sink{nullptr};

std::string_view name(Level level) {
  switch (level) {
    case Level::debug:
      return "debug";
    case Level::info:
      return "info";
    case Level::warning:
      return "warning";
  }
  return "";
}

}  // namespace

bool enabled(Level level) {
  std::optional<std::string> setting = env::text("DEEPGEMM_LOG");
  if (!setting) return level == Level::warning || current_sink.load() != nullptr;
  if (*setting == "off") return false;
  if (*setting == "debug") return true;
  if (*setting == "info") return level != Level::debug;
  // The warning of a wrong word asks here again, and is one that was written then.
  if (*setting != "warning") env::refuse("DEEPGEMM_LOG", *setting, "off, warning, info or debug");
  return level == Level::warning;
}

void write(Level level, std::string_view message) {
  if (!enabled(level)) return;
  if (Sink sink = current_sink.load()) {
    sink(level, message);
    return;
  }
  // One call, so that lines of several threads or ranks do not mix.
  std::string line = join("deepgemm: ", name(level), ": ", message, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void warn_once(std::string_view message) {
  static std::mutex mutex;
  static std::unordered_set<std::string> written;
  {
    std::lock_guard lock(mutex);
    if (!written.emplace(message).second) return;
  }
  write(Level::warning, message);
}

void set_sink(Sink sink) noexcept { current_sink.store(sink); }

}  // namespace deepgemm::log
