#include "device/common/float_formats.cuh"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "device/common/quantize_rule.cuh"
#include "test_tensors.hpp"

using namespace deepgemm::device;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();
const float nan_value = std::numeric_limits<float>::quiet_NaN();

// The definition of a code, in double and by ldexp, independent of the bit tricks under test.
double definition(unsigned code, int exponent_bits, int mantissa_bits, int bias,
                  bool has_infinity) {
  unsigned sign = code >> (exponent_bits + mantissa_bits);
  unsigned exponent = (code >> mantissa_bits) & ((1U << exponent_bits) - 1);
  unsigned mantissa = code & ((1U << mantissa_bits) - 1);
  double value = 0;
  bool ones = exponent == (1U << exponent_bits) - 1;
  if (ones && has_infinity) {
    value = mantissa == 0 ? INFINITY : NAN;
  } else if (ones && mantissa == (1U << mantissa_bits) - 1) {
    value = has_infinity ? INFINITY : NAN;
  } else if (exponent == 0) {
    value = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    value = std::ldexp(mantissa + (1U << mantissa_bits),
                       static_cast<int>(exponent) - bias - mantissa_bits);
  }
  return sign ? -value : value;
}

struct Spec {
  int exponent_bits, mantissa_bits, bias;
  bool has_infinity;
};

// Every code decodes to its definition and encodes back to itself; midpoints between neighbours go
// to the even one, and the floats beside a midpoint to the nearer one.
template <class Format>
void check_format(const Spec& spec) {
  unsigned codes = 1U << (1 + spec.exponent_bits + spec.mantissa_bits);
  for (unsigned code = 0; code < codes; ++code) {
    double expected =
        definition(code, spec.exponent_bits, spec.mantissa_bits, spec.bias, spec.has_infinity);
    float value = decode<Format>(static_cast<typename Format::Code>(code));
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(value));
      REQUIRE(encode<Format>(value) == Format::nan_code);
      continue;
    }
    REQUIRE(static_cast<double>(value) == expected);
    REQUIRE(std::signbit(value) == (code >= codes / 2));
    if (std::isinf(expected)) continue;
    REQUIRE(encode<Format>(value) == code);
  }
  for (unsigned code = 0; code < Format::max_code; ++code) {
    double low = decode<Format>(static_cast<typename Format::Code>(code));
    double high = decode<Format>(static_cast<typename Format::Code>(code + 1));
    auto middle = static_cast<float>((low + high) / 2);  // exact: one more bit
    unsigned even = code + (code & 1);
    REQUIRE(encode<Format>(middle) == even);
    REQUIRE(encode<Format>(std::nextafterf(middle, 0.0F)) == code);
    REQUIRE(encode<Format>(std::nextafterf(middle, infinity)) == code + 1);
    REQUIRE(encode<Format>(-middle) == (even | codes / 2));
  }
}

}  // namespace

TEST_CASE("e4m3fn: all codes, midpoints") { check_format<E4M3>({4, 3, 7, false}); }
TEST_CASE("e5m2: all codes, midpoints") { check_format<E5M2>({5, 2, 15, true}); }
TEST_CASE("float16: all codes, midpoints") { check_format<Half>({5, 10, 15, true}); }

TEST_CASE("float8 saturates, Inf included, and keeps NaN") {
  CHECK(e4m3_to_float(0x7e) == 448.0F);
  CHECK(e5m2_to_float(0x7b) == 57344.0F);
  for (float big : {449.0F, 464.0F, 465.0F, 1e30F, 3.4e38F, infinity}) {
    CHECK(float_to_e4m3(big) == 0x7e);
    CHECK(float_to_e4m3(-big) == 0xfe);
  }
  for (float big : {57345.0F, 61440.0F, 1e30F, infinity}) {
    CHECK(float_to_e5m2(big) == 0x7b);
    CHECK(float_to_e5m2(-big) == 0xfb);
  }
  for (float nan :
       {nan_value, -nan_value, float_from_bits(0x7f800001), float_from_bits(0xffffffff)}) {
    CHECK(float_to_e4m3(nan) == 0x7f);
    CHECK(float_to_e5m2(nan) == 0x7f);
    CHECK(float_to_half(nan) == 0x7fff);
    CHECK(float_to_bfloat16(nan) == 0x7fff);
  }
}

TEST_CASE("tiny numbers round to a signed zero") {
  for (float tiny : {0.0F, 1e-45F, 1e-38F, 1e-20F}) {
    CHECK(float_to_e4m3(tiny) == 0);
    CHECK(float_to_e4m3(-tiny) == 0x80);
    CHECK(float_to_e5m2(-tiny) == 0x80);
    CHECK(float_to_half(-tiny) == 0x8000);
  }
  CHECK(float_to_e4m3(0x1p-10F) == 0);  // the midpoint of 0 and 2^-9
  CHECK(float_to_e4m3(0x1.000002p-10F) == 1);
}

TEST_CASE("float16 overflows to Inf from 65520 up") {
  CHECK(float_to_half(65519.996F) == 0x7bff);
  CHECK(float_to_half(65520.0F) == 0x7c00);
  CHECK(float_to_half(-infinity) == 0xfc00);
}

TEST_CASE("bfloat16: all codes, and rounding around each") {
  for (unsigned code = 0; code < 0x10000; ++code) {
    float value = bfloat16_to_float(static_cast<u16>(code));
    REQUIRE(float_bits(value) == code << 16);
    if (std::isnan(value)) continue;
    REQUIRE(float_to_bfloat16(value) == code);
    if (std::isinf(value)) continue;
    u32 base = code << 16;
    REQUIRE(float_to_bfloat16(float_from_bits(base | 0x7fff)) == code);
    REQUIRE(float_to_bfloat16(float_from_bits(base | 0x8000)) == code + (code & 1));
    REQUIRE(float_to_bfloat16(float_from_bits(base | 0x8001)) == code + 1);
  }
  CHECK(float_to_bfloat16(3.4028235e38F) == 0x7f80);
}

TEST_CASE("e8m0: codes and round-up by exponent bits") {
  for (int code = 0; code < 255; ++code) {
    float value = e8m0_to_float(static_cast<u8>(code));
    REQUIRE(static_cast<double>(value) == std::ldexp(1.0, code - 127));
    REQUIRE(float_to_e8m0_round_up(value) == code);  // exact powers are unchanged
    float above = std::nextafterf(value, infinity);
    REQUIRE(float_to_e8m0_round_up(above) == (code == 254 ? 255 : code + 1));
    float below = std::nextafterf(value, 0.0F);
    REQUIRE(float_to_e8m0_round_up(below) == code);
  }
  CHECK(std::isnan(e8m0_to_float(0xff)));
  CHECK(float_to_e8m0_round_up(nan_value) == 0xff);
  CHECK(float_to_e8m0_round_up(-nan_value) == 0xff);
  CHECK(float_to_e8m0_round_up(infinity) == 0xff);
  CHECK(float_to_e8m0_round_up(-1.0F) == 0xff);
  CHECK(float_to_e8m0_round_up(0.0F) == 0);
  CHECK(float_to_e8m0_round_up(-0.0F) == 0);
  CHECK(float_to_e8m0_round_up(1e-45F) == 0);
}

TEST_CASE("the conversions are constant expressions") {
  static_assert(float_to_e4m3(1.0F) == 0x38);
  static_assert(float_to_half(1.0F) == 0x3c00);
  static_assert(e5m2_to_float(0x3c) == 1.0F);
  static_assert(float_to_e8m0_round_up(3.0F) == 129);
}

TEST_CASE("scale_from_amax: floor, NaN, Inf, zero") {
  CHECK(scale_from_amax<E4M3>(float_bits(448.0F), 1e-4F) == 1.0F);
  CHECK(scale_from_amax<E5M2>(float_bits(57344.0F), 1e-4F) == 1.0F);
  CHECK(scale_from_amax<E4M3>(0, 1e-4F) == 1e-4F / 448.0F);
  CHECK(scale_from_amax<E4M3>(0, 0.0F) == 0.0F);
  CHECK(std::isnan(scale_from_amax<E4M3>(magnitude_bits(-nan_value), 1e-4F)));
  CHECK(std::isinf(scale_from_amax<E4M3>(magnitude_bits(-infinity), 1e-4F)));
  CHECK(magnitude_bits(nan_value) > magnitude_bits(infinity));
}

TEST_CASE("power_of_two_scale and reciprocal_of_scale") {
  CHECK(power_of_two_scale(0.75F) == 1.0F);
  CHECK(power_of_two_scale(1.0F) == 1.0F);
  CHECK(power_of_two_scale(0.0F) == 0x1p-127F);
  CHECK(std::isinf(power_of_two_scale(infinity)));
  CHECK(std::isnan(power_of_two_scale(nan_value)));
  CHECK(reciprocal_of_scale(4.0F) == 0.25F);
  CHECK(reciprocal_of_scale(0.0F) == 0.0F);
  CHECK(reciprocal_of_scale(infinity) == 0.0F);
  CHECK(std::isnan(reciprocal_of_scale(nan_value)));
  for (float tiny : {1e-45F, 0x1p-128F, 0x1.000008p-128F, 0x1p-127F, 0x1p-126F}) {
    CHECK(std::isfinite(reciprocal_of_scale(tiny)));
    CHECK(quantize_value<E4M3>(0.0F, reciprocal_of_scale(tiny)) == 0);
  }
}

TEST_CASE("round_to_odd makes two roundings one") {
  test::Random random(7);
  for (int i = 0; i < 200000; ++i) {
    // Just beside a bfloat16 midpoint, by less than FP32 resolves: rounding twice would lose it.
    auto code = static_cast<u16>(random.integer(0x0080, 0x7f00));
    double middle = float_from_bits((static_cast<u32>(code) << 16) | 0x8000);
    double above = middle * (1 + 0x1p-40), below = middle * (1 - 0x1p-40);
    REQUIRE(float_to_bfloat16(round_to_odd(above)) == code + 1);
    REQUIRE(float_to_bfloat16(round_to_odd(below)) == code);
    REQUIRE(float_to_bfloat16(round_to_odd(-above)) == ((code + 1) | 0x8000));
    REQUIRE(float_to_bfloat16(round_to_odd(middle)) == code + (code & 1));
  }
  CHECK(round_to_odd(1.5) == 1.5F);
  CHECK(round_to_odd(1e300) == float_from_bits(float_max_bits));
  CHECK(std::isinf(round_to_odd(INFINITY)));
  CHECK(std::isnan(round_to_odd(NAN)));
}
