// 64-bit size arithmetic.
#pragma once

#include <cstdint>

namespace deepgemm {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept { return (a + b - 1) / b; }
constexpr std::int64_t align_up(std::int64_t value, std::int64_t alignment) noexcept {
  return ceil_div(value, alignment) * alignment;
}

}  // namespace deepgemm
