// 64-bit size arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "core/text.hpp"
#include "deepgemm/error.hpp"

namespace deepgemm {

// For a >= 0 and b > 0, however large: a + b - 1 could overflow.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) noexcept {
  return a / b + (a % b != 0 ? 1 : 0);
}
constexpr std::int64_t align_up(std::int64_t value, std::int64_t alignment) noexcept {
  return ceil_div(value, alignment) * alignment;
}

// A product of numbers >= 0 that stops at the largest number instead of overflowing.
constexpr std::int64_t product_or_max(std::initializer_list<std::int64_t> factors) noexcept {
  std::int64_t product = 1;
  bool overflow = false;
  for (std::int64_t factor : factors) {
    if (factor == 0) return 0;
    overflow |= __builtin_mul_overflow(product, factor, &product);
  }
  return overflow ? INT64_MAX : product;
}

// The number of elements of a buffer of Element with these extents; a ValueError if its bytes do
// not fit 64 bits. (Bytes that fit, and no memory for them, is std::bad_alloc.)
template <class Element>
std::size_t checked_elements(std::string_view what, std::initializer_list<std::int64_t> extents) {
  const std::int64_t count = product_or_max(extents);
  std::int64_t bytes = 0;
  if (__builtin_mul_overflow(count, static_cast<std::int64_t>(sizeof(Element)), &bytes)) {
    std::string text;
    for (std::int64_t extent : extents) text += join(text.empty() ? "" : " x ", extent);
    throw ValueError(complaint(what, join("a buffer of ", text, " elements"),
                               "fewer than 2^63 bytes", "sizes are 64-bit"));
  }
  return static_cast<std::size_t>(count);
}

}  // namespace deepgemm
