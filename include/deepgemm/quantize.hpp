// Quantisers and their inverse; definitions in docs/design.md, "Numbers".
#pragma once

#include "deepgemm/gemm.hpp"
#include "deepgemm/scaling.hpp"
#include "deepgemm/tensor.hpp"

namespace deepgemm {

struct QuantizeOptions {
  Granularity granularity{1, 128};
  bool power_of_two = false;  // round sf up to a power of two, by exponent bits
  float amax_floor = 1e-4F;   // amax is clamped from below
};

// values = saturate(x * (1 / sf)) rounded to nearest even; sf = max(amax, floor) /
// max_finite(dtype).
//   x       [rows, K], float32, bfloat16, float16 (float64 on the CPU); any strides
//   values  [rows, K] float8_e4m3fn or float8_e5m2, any strides
//   sf      scale_extents(granularity, rows, K), float32 or (power_of_two only) float8_e8m0fnu
// A stack [G, rows, K] of such matrices gives values [G, rows, K] and sf [G, row blocks, K blocks]:
// each is quantised by itself, a per-tensor factor included. On a GPU one kernel per matrix.
// 1 / sf is clamped to the largest finite float, which only an sf below 2^-128 reaches (amax_floor
// below about 1.3e-36 for e4m3): values are then smaller than x / sf.
// NaN in x gives NaN in its block's sf and values; Inf gives an Inf sf.
DEEPGEMM_API void quantize(const TensorView& x, const TensorView& values, const TensorView& sf,
                           const QuantizeOptions& options, const CallOptions& call = {});
// out = values * sf, rounded once to out's dtype. Of a stack too; one element of sf then scales it
// all.
DEEPGEMM_API void dequantize(const ScaledView& x, const TensorView& out,
                             const CallOptions& call = {});

}  // namespace deepgemm
