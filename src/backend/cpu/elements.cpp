#include "backend/cpu/elements.hpp"

#include <cstring>
#include <stdexcept>

#include "device/common/float_formats.cuh"
#include "device/common/quantize_rule.cuh"

namespace deepgemm::cpu {
namespace {

namespace formats = deepgemm::device;

// One codec per dtype: what is stored, and the way to a number and back.
struct Float64 {
  using Stored = double;
  static double decode(double value) { return value; }
  static double encode(double value) { return value; }
};
struct Float32 {
  using Stored = float;
  static float decode(float value) { return value; }
  static float encode(float value) { return value; }
};
struct BFloat16 {
  using Stored = std::uint16_t;
  static float decode(Stored code) { return formats::bfloat16_to_float(code); }
  static Stored encode(float value) { return formats::float_to_bfloat16(value); }
};
struct E8M0 {
  using Stored = std::uint8_t;
  static float decode(Stored code) { return formats::e8m0_to_float(code); }
  static Stored encode(float value) { return formats::float_to_e8m0_round_up(value); }
};
template <class Format>
struct Small {
  using Stored = Format::Code;
  static float decode(Stored code) { return formats::decode<Format>(code); }
  static Stored encode(float value) { return formats::encode<Format>(value); }
};

template <class Function>
void with_codec(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::float8_e4m3fn:
      return function(Small<formats::E4M3>{});
    case DType::float8_e5m2:
      return function(Small<formats::E5M2>{});
    case DType::float8_e8m0fnu:
      return function(E8M0{});
    case DType::bfloat16:
      return function(BFloat16{});
    case DType::float16:
      return function(Small<formats::Half>{});
    case DType::float32:
      return function(Float32{});
    case DType::float64:
      return function(Float64{});
    default:
      throw std::logic_error("the CPU backend got an integer tensor past the checks");
  }
}

// What a codec's encode() takes, rounded so that the whole way rounds once.
template <class Codec, class Real>
auto narrowed(Real value) {
  if constexpr (sizeof(typename Codec::Stored) >= 4)
    return static_cast<Codec::Stored>(value);
  else if constexpr (sizeof(Real) == 8)
    return formats::round_to_odd(value);
  else
    return value;
}

template <class Stored>
char* address(const Run& run) {
  return static_cast<char*>(run.view.data) + run.offset * static_cast<std::int64_t>(sizeof(Stored));
}

}  // namespace

// memcpy, because nothing promises that a caller's array is aligned to its element.
template <class Real>
void load(const Run& run, Real* to) {
  with_codec(run.view.dtype, [&](auto codec) {
    using Stored = decltype(codec)::Stored;
    const char* from = address<Stored>(run);
    const std::int64_t step = run.stride * static_cast<std::int64_t>(sizeof(Stored));
    for (std::int64_t i = 0; i < run.count; ++i) {
      Stored stored;
      std::memcpy(&stored, from + i * step, sizeof(stored));
      to[i] = static_cast<Real>(codec.decode(stored));
    }
  });
}

template <class Real>
void store(const Run& run, const Real* from) {
  with_codec(run.view.dtype, [&](auto codec) {
    using Codec = decltype(codec);
    using Stored = Codec::Stored;
    char* to = address<Stored>(run);
    const std::int64_t step = run.stride * static_cast<std::int64_t>(sizeof(Stored));
    for (std::int64_t i = 0; i < run.count; ++i) {
      Stored stored = codec.encode(narrowed<Codec>(from[i]));
      std::memcpy(to + i * step, &stored, sizeof(stored));
    }
  });
}

template void load(const Run&, float*);
template void load(const Run&, double*);
template void store(const Run&, const float*);
template void store(const Run&, const double*);

}  // namespace deepgemm::cpu
