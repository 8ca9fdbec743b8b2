#include "core/text.hpp"

#include <charconv>

namespace deepgemm {
namespace {

template <class Number>
std::string from_number(Number value) {
  char buffer[32];
  auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

}  // namespace

std::string to_text(std::int64_t value) { return from_number(value); }
std::string to_text(std::uint64_t value) { return from_number(value); }
std::string to_text(double value) { return from_number(value); }
std::string to_text(float value) { return from_number(value); }

std::string hex(std::string_view bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (char c : bytes) {
    auto byte = static_cast<unsigned char>(c);
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

std::string list_text(const std::int64_t* values, std::size_t count) {
  std::string text = "[";
  for (std::size_t i = 0; i < count; ++i) text += join(i == 0 ? "" : ", ", values[i]);
  return text + "]";
}

}  // namespace deepgemm
