// Small text helpers in place of iostreams and std::format (g++ 12 has neither to our liking).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace deepgemm {

std::string to_text(std::int64_t value);
std::string to_text(std::uint64_t value);
// Shortest forms that read back.
std::string to_text(double value);
std::string to_text(float value);
template <std::integral Integer>
std::string to_text(Integer value) {
  if constexpr (std::signed_integral<Integer>)
    return to_text(static_cast<std::int64_t>(value));
  else
    return to_text(static_cast<std::uint64_t>(value));
}
inline std::string_view to_text(std::string_view value) { return value; }
inline std::string_view to_text(const char* value) { return value; }
inline std::string_view to_text(const std::string& value) { return value; }
inline std::string_view to_text(bool value) { return value ? "true" : "false"; }

// join("a", 1, 2.5) == "a12.5"
template <class... Parts>
std::string join(const Parts&... parts) {
  std::string result;
  (result.append(to_text(parts)), ...);
  return result;
}

// The form of every argument error: "a: found float64, need float8_e4m3fn or float8_e5m2 (FP8
// only)".
// Inline: the Python module forms its errors with it too, and links to exported functions only.
inline std::string complaint(std::string_view operand, std::string_view found,
                             std::string_view need, std::string_view rule = {}) {
  std::string text(operand);
  text.append(": found ").append(found).append(", need ").append(need);
  if (!rule.empty()) text.append(" (").append(rule).append(")");
  return text;
}

std::string hex(std::string_view bytes);
// "[2, 3]"
std::string list_text(const std::int64_t* values, std::size_t count);

}  // namespace deepgemm
