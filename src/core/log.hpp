// Messages for people. DEEPGEMM_LOG (off, warning, info, debug) says how much is written; unset, it
// is warnings to stderr, or everything to a sink, which can choose for itself. One line per
// message.
#pragma once

#include <string_view>

namespace deepgemm::log {

enum class Level { debug, info, warning };
using Sink = void (*)(Level, std::string_view);

bool enabled(Level level);
void write(Level level, std::string_view message);
// The same text is written once per process.
void warn_once(std::string_view message);
void set_sink(Sink sink) noexcept;  // nullptr: stderr

}  // namespace deepgemm::log
