// Small integers in the formats of the SM90 model's products.
#pragma once

#include <cstdint>

#include "common/float_formats.cuh"
#include "machine/api.hpp"

namespace sm90 {

inline std::uint32_t encode(Format format, int value) {
  using namespace deepgemm::device;
  const auto number = static_cast<float>(value);
  switch (format) {
    case Format::e4m3:
      return float_to_e4m3(number);
    case Format::e5m2:
      return float_to_e5m2(number);
    case Format::bf16:
      return float_to_bfloat16(number);
    default:
      return float_to_half(number);
  }
}

}  // namespace sm90
