// The quantiser's arithmetic, once for the CPU backend and the GPU kernels:
//   sf     = max(amax, floor) / max_finite, rounded up to a power of two if asked
//   stored = saturate(x * (1 / sf)), rounded to nearest even
// and back: value = stored * sf, rounded once to the output's dtype.
// Why a rounded reciprocal and not a division: it is what the ecosystem's quantisers do, so that
// weights quantised elsewhere agree bit for bit. For sf below 2^-128, whose reciprocal no FP32
// holds, it is clamped to the largest float: stored is then smaller than x / sf.
#pragma once

#include "common/float_formats.cuh"
#include "common/types.cuh"

namespace deepgemm::device {

// Scale factor of a block. `amax_bits` is the largest magnitude_bits() of the block, so that a NaN
// gives a NaN factor; an Inf gives an Inf one. Both divisions must be IEEE (not --use_fast_math).
template <class Format>
DEEPGEMM_SHARED_CODE constexpr float scale_from_amax(u32 amax_bits, float amax_floor) {
  float amax = float_from_bits(amax_bits);
  if (amax < amax_floor) amax = amax_floor;  // false for NaN, which stays
  return amax / Format::max_finite;
}

// sf rounded up to a power of two, as FP32: exactly the value of its E8M0 code, but Inf stays Inf.
DEEPGEMM_SHARED_CODE constexpr float power_of_two_scale(float sf) {
  if (float_bits(sf) == float_infinity_bits) return sf;
  return e8m0_to_float(float_to_e8m0_round_up(sf));
}

// 1 / sf, kept finite: a factor of 0 (an all-zero block and no floor) has reciprocal 0, and one so
// small that the division overflows has the largest float, so that 0 is stored as 0 and not as NaN.
DEEPGEMM_SHARED_CODE constexpr float reciprocal_of_scale(float sf) {
  if (sf == 0.0F) return 0.0F;
  const float smallest_invertible = float_from_bits(0x00200001);  // just above 2^-128
  if (sf < smallest_invertible) return float_from_bits(float_max_bits);
  return 1.0F / sf;  // NaN stays NaN; Inf gives 0
}

template <class Format>
DEEPGEMM_SHARED_CODE constexpr typename Format::Code quantize_value(float value, float reciprocal) {
  return encode<Format>(value * reciprocal);
}

// The FP32 number to round to a narrower format so that `exact` is rounded only once: rounding to
// odd keeps the fact that something was cut off in the last bit.
DEEPGEMM_SHARED_CODE constexpr float round_to_odd(double exact) {
  float nearest = static_cast<float>(exact);
  double back = static_cast<double>(nearest);
  if (back == exact || exact != exact) return nearest;
  u32 bits = float_bits(nearest);
  bool away_from_zero = exact < 0 ? back < exact : back > exact;
  if (away_from_zero) bits -= 1;  // also takes an overflow to Inf back to the largest float
  return float_from_bits(bits | 1);
}

// value * sf for an output narrower than FP32 (pass it to encode<> or float_to_bfloat16). The
// double product of two floats is exact. For FP32 output, value * sf itself is rounded once.
DEEPGEMM_SHARED_CODE constexpr float dequantize_to_narrow(float value, float sf) {
  return round_to_odd(static_cast<double>(value) * static_cast<double>(sf));
}

}  // namespace deepgemm::device
