// The one definition of the small float formats: FP8, bfloat16, float16 and E8M0, to and from FP32,
// by integer bit arithmetic, so that host, device and tests agree to the bit.
//
// All conversions from FP32 round to nearest, ties to even. What they do with the rest:
//                 overflow            Inf                 NaN (sign and payload are dropped)
//   e4m3fn        +-448               +-448               0x7f
//   e5m2          +-57344             +-57344             0x7f
//   bfloat16      +-Inf               +-Inf               0x7fff
//   float16       +-Inf               +-Inf               0x7fff
//   e8m0fnu       0xff (NaN)          0xff (NaN)          0xff       (rounds UP, see below)
// FP8 saturates, Inf included, as cvt.rn.satfinite does: a quantised value is clamped, never lost.
// NaN becomes the all-ones code, as cvt.rn.bf16.f32 and cvt.rn.f16.f32 make it.
#pragma once

#include "common/types.cuh"

namespace deepgemm::device {

DEEPGEMM_SHARED_CODE constexpr u32 float_bits(float value) {
  return __builtin_bit_cast(u32, value);
}
DEEPGEMM_SHARED_CODE constexpr float float_from_bits(u32 bits) {
  return __builtin_bit_cast(float, bits);
}

constexpr u32 float_infinity_bits = 0x7f800000;
constexpr u32 float_max_bits = 0x7f7fffff;
constexpr u32 float_nan_bits = 0x7fffffff;

DEEPGEMM_SHARED_CODE constexpr bool is_nan(float value) { return value != value; }
// |value| as an integer that orders like the magnitude, with NaN above Inf: the way to take an amax
// that a NaN cannot slip through.
DEEPGEMM_SHARED_CODE constexpr u32 magnitude_bits(float value) {
  return float_bits(value) << 1 >> 1;
}

// Formats with sign | exponent | mantissa. `max_code` is the largest finite magnitude and
// `overflow_code` what anything above it becomes.
struct E4M3 {
  using Code = u8;
  static constexpr int exponent_bits = 4, mantissa_bits = 3, bias = 7;
  static constexpr u32 max_code = 0x7e, overflow_code = 0x7e, nan_code = 0x7f;
  static constexpr bool has_infinity = false;  // 0x7f is NaN, all else is finite
  static constexpr float max_finite = 448.0F;
};
struct E5M2 {
  using Code = u8;
  static constexpr int exponent_bits = 5, mantissa_bits = 2, bias = 15;
  static constexpr u32 max_code = 0x7b, overflow_code = 0x7b, nan_code = 0x7f;
  static constexpr bool has_infinity = true;
  static constexpr float max_finite = 57344.0F;
};
struct Half {
  using Code = u16;
  static constexpr int exponent_bits = 5, mantissa_bits = 10, bias = 15;
  static constexpr u32 max_code = 0x7bff, overflow_code = 0x7c00, nan_code = 0x7fff;
  static constexpr bool has_infinity = true;
  static constexpr float max_finite = 65504.0F;
};

// value / 2^shift rounded to nearest even; shift >= 1.
DEEPGEMM_SHARED_CODE constexpr u32 shift_right_to_even(u32 value, int shift) {
  if (shift > 31) return 0;  // only reached with value < 2^24, far below one half
  u32 odd = (value >> shift) & 1;
  return (value + (1U << (shift - 1)) - 1 + odd) >> shift;
}

template <class Format>
DEEPGEMM_SHARED_CODE constexpr typename Format::Code encode(float value) {
  constexpr int dropped_bits = 23 - Format::mantissa_bits;
  u32 sign = (float_bits(value) >> 31) << (Format::exponent_bits + Format::mantissa_bits);
  u32 magnitude = magnitude_bits(value);
  if (magnitude > float_infinity_bits) return static_cast<typename Format::Code>(Format::nan_code);
  int exponent = static_cast<int>(magnitude >> 23) - 127 + Format::bias;
  u32 code = 0;
  if (exponent >= 1) {
    // Rebias, then round. A carry out of the mantissa steps the exponent, as it should.
    u32 rebiased = magnitude - (static_cast<u32>(127 - Format::bias) << 23);
    code = shift_right_to_even(rebiased, dropped_bits);
  } else {
    // Subnormal in the format (FP32's own subnormals are far below half of the smallest code).
    u32 significand = (magnitude & 0x7fffff) | 0x800000;
    code = shift_right_to_even(significand, dropped_bits + 1 - exponent);
  }
  if (code > Format::max_code) code = Format::overflow_code;
  return static_cast<typename Format::Code>(sign | code);
}

template <class Format>
DEEPGEMM_SHARED_CODE constexpr float decode(typename Format::Code code) {
  constexpr int sign_shift = Format::exponent_bits + Format::mantissa_bits;
  constexpr u32 exponent_ones = ((1U << Format::exponent_bits) - 1) << Format::mantissa_bits;
  u32 sign = (static_cast<u32>(code) >> sign_shift) << 31;
  u32 magnitude = code & ((1U << sign_shift) - 1);
  if (Format::has_infinity) {
    if (magnitude == exponent_ones) return float_from_bits(sign | float_infinity_bits);
    if (magnitude > exponent_ones) return float_from_bits(sign | float_nan_bits);
  } else if (magnitude == Format::nan_code) {
    return float_from_bits(sign | float_nan_bits);
  }
  if (magnitude < (1U << Format::mantissa_bits)) {
    // Zero or subnormal: mantissa * 2^(1 - bias - mantissa_bits), exact in FP32.
    constexpr u32 unit = static_cast<u32>(128 - Format::bias - Format::mantissa_bits) << 23;
    float value = static_cast<float>(magnitude) * float_from_bits(unit);
    return float_from_bits(sign | float_bits(value));
  }
  u32 rebias = static_cast<u32>(127 - Format::bias) << 23;
  return float_from_bits(sign | ((magnitude << (23 - Format::mantissa_bits)) + rebias));
}

DEEPGEMM_SHARED_CODE constexpr u8 float_to_e4m3(float value) { return encode<E4M3>(value); }
DEEPGEMM_SHARED_CODE constexpr u8 float_to_e5m2(float value) { return encode<E5M2>(value); }
DEEPGEMM_SHARED_CODE constexpr u16 float_to_half(float value) { return encode<Half>(value); }
DEEPGEMM_SHARED_CODE constexpr float e4m3_to_float(u8 code) { return decode<E4M3>(code); }
DEEPGEMM_SHARED_CODE constexpr float e5m2_to_float(u8 code) { return decode<E5M2>(code); }
DEEPGEMM_SHARED_CODE constexpr float half_to_float(u16 code) { return decode<Half>(code); }

// bfloat16 is the upper half of FP32, subnormals included.
DEEPGEMM_SHARED_CODE constexpr u16 float_to_bfloat16(float value) {
  u32 sign = float_bits(value) >> 31 << 15;
  u32 magnitude = magnitude_bits(value);
  if (magnitude > float_infinity_bits) return 0x7fff;
  return static_cast<u16>(sign | shift_right_to_even(magnitude, 16));
}
DEEPGEMM_SHARED_CODE constexpr float bfloat16_to_float(u16 code) {
  return float_from_bits(static_cast<u32>(code) << 16);
}

// E8M0: the power of two 2^(code - 127), and 0xff for NaN. Used for scale factors only.
constexpr u8 e8m0_nan = 0xff;

DEEPGEMM_SHARED_CODE constexpr float e8m0_to_float(u8 code) {
  if (code == e8m0_nan) return float_from_bits(float_nan_bits);
  if (code == 0) return float_from_bits(0x00400000);  // 2^-127, a subnormal of FP32
  return float_from_bits(static_cast<u32>(code) << 23);
}

// The smallest power of two >= value, by exponent bits: a logarithm is not exact and doubles or
// halves exact powers. Powers of two stay themselves; 0 becomes 2^-127, the smallest code. NaN,
// negative values and what exceeds 2^127 (Inf included) have no code and become NaN.
DEEPGEMM_SHARED_CODE constexpr u8 float_to_e8m0_round_up(float value) {
  u32 magnitude = magnitude_bits(value);
  if (magnitude != float_bits(value) && magnitude != 0) return e8m0_nan;  // negative
  if (magnitude > 0x7f000000) return e8m0_nan;                            // above 2^127, or NaN
  u32 exponent = magnitude >> 23;
  u32 mantissa = magnitude & 0x7fffff;
  // Subnormals of FP32: 2^-127 has mantissa 0x400000, the next power is 2^-126, code 1.
  if (exponent == 0) return mantissa > 0x400000 ? 1 : 0;
  return static_cast<u8>(exponent + (mantissa != 0 ? 1 : 0));
}

}  // namespace deepgemm::device
