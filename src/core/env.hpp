// The only reader of environment variables. Settings are read at use, never cached at load.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace deepgemm::env {

struct Setting {
  std::string_view variable;  // "DEEPGEMM_CACHE_DIR"
  std::string_view type;      // "path", "bool", "int", "bytes", "text"
  std::string_view fallback;  // what holds when it is not set, in words
  std::string_view meaning;
};
// The one table; docs/settings.md is generated from it.
std::span<const Setting> settings() noexcept;

// Value of a DEEPGEMM_ setting of the table, or unset. Empty counts as unset. A variable that is
// not in the table is a std::logic_error.
std::optional<std::string> text(std::string_view variable);
// What these cannot read is refused, see below, and `fallback` holds.
// 1/0, true/false, yes/no, on/off in any case.
bool flag(std::string_view variable, bool fallback);
// At least `least`.
std::int64_t integer(std::string_view variable, std::int64_t least, std::int64_t fallback);
// "1000", "512M", "2G", "2GiB": units are powers of 1024.
std::uint64_t bytes(std::string_view variable, std::uint64_t fallback);
// A wrong value of a setting counts as not set, with one warning per value that names the variable,
// what was found, what is needed and what holds instead. Why no error: settings are read at use, in
// the middle of a service too, which none of them is worth stopping for.
void refuse(std::string_view variable, std::string_view found, std::string_view need);
// Variables that are not ours: HOME, XDG_CACHE_HOME, CUDA_HOME, CUDA_PATH, PATH,
// NVRTC_APPEND_FLAGS.
std::optional<std::string> foreign(const char* variable);

}  // namespace deepgemm::env
