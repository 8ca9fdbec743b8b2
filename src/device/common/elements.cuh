// Elements of a run-time type: for the paths that are general rather than fast.
#pragma once

#include "common/float_formats.cuh"
#include "common/types.cuh"

namespace deepgemm::device {

enum class ElementType : u8 { e4m3, e5m2, bf16, f16, f32, e8m0 };

DEEPGEMM_SHARED_CODE constexpr int bytes_of(ElementType type) {
  if (type == ElementType::f32) return 4;
  return type == ElementType::bf16 || type == ElementType::f16 ? 2 : 1;
}

DEEPGEMM_SHARED_CODE float load_element(const void* data, i64 index, ElementType type) {
  switch (type) {
    case ElementType::f32:
      return static_cast<const float*>(data)[index];
    case ElementType::bf16:
      return bfloat16_to_float(static_cast<const u16*>(data)[index]);
    case ElementType::f16:
      return half_to_float(static_cast<const u16*>(data)[index]);
    case ElementType::e4m3:
      return e4m3_to_float(static_cast<const u8*>(data)[index]);
    case ElementType::e5m2:
      return e5m2_to_float(static_cast<const u8*>(data)[index]);
    default:
      return e8m0_to_float(static_cast<const u8*>(data)[index]);
  }
}

// Rounds to nearest even; FP8 saturates; e8m0 rounds up.
DEEPGEMM_SHARED_CODE void store_element(void* data, i64 index, ElementType type, float value) {
  switch (type) {
    case ElementType::f32:
      static_cast<float*>(data)[index] = value;
      return;
    case ElementType::bf16:
      static_cast<u16*>(data)[index] = float_to_bfloat16(value);
      return;
    case ElementType::f16:
      static_cast<u16*>(data)[index] = float_to_half(value);
      return;
    case ElementType::e4m3:
      static_cast<u8*>(data)[index] = float_to_e4m3(value);
      return;
    case ElementType::e5m2:
      static_cast<u8*>(data)[index] = float_to_e5m2(value);
      return;
    default:
      static_cast<u8*>(data)[index] = float_to_e8m0_round_up(value);
  }
}

}  // namespace deepgemm::device
