// Element types, named as NumPy/ml_dtypes and PyTorch name them.
#pragma once

#include <cstdint>
#include <string_view>

#include "deepgemm/error.hpp"

namespace deepgemm {

enum class DType : std::uint8_t {
  float8_e4m3fn,
  float8_e5m2,
  float8_e8m0fnu,
  bfloat16,
  float16,
  float32,
  float64,
  uint8,
  int8,
  uint16,
  int16,
  int32,
  int64,
};

// Bytes of one element.
DEEPGEMM_API std::int64_t size_in_bytes(DType dtype) noexcept;
// "float8_e4m3fn", "bfloat16", ...
DEEPGEMM_API std::string_view name(DType dtype) noexcept;
// The inverse of name(); throws TypeError that lists the known names.
DEEPGEMM_API DType dtype_from_name(std::string_view text);
constexpr bool is_float8(DType dtype) noexcept {
  return dtype == DType::float8_e4m3fn || dtype == DType::float8_e5m2;
}
constexpr bool is_floating(DType dtype) noexcept {
  return is_float8(dtype) || dtype == DType::bfloat16 || dtype == DType::float16 ||
         dtype == DType::float32 || dtype == DType::float64;
}

}  // namespace deepgemm
