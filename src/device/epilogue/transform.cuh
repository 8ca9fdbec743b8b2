// What happens to a sum before it is stored: activation(alpha * sum + bias) + c, out_scale, cast.
// Everything is decided at run time, once per tile: one general kernel instead of one per epilogue.
#pragma once

#include "common/elements.cuh"
#include "common/gemm_params.cuh"

namespace deepgemm::device {

DEEPGEMM_DEVICE float activate(float x, ActivationType type) {
  switch (type) {
    case ActivationType::relu:
      return x < 0.0f ? 0.0f : x;  // keeps NaN
    case ActivationType::gelu:
      return 0.5f * x * erfcf(x * -0.70710678118654752f);  // 1 + erf would cancel below 0
    case ActivationType::gelu_tanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456080286536f * (x + 0.044715f * x * x * x)));
    case ActivationType::silu:
      return x / (1.0f + expf(-x));
    default:
      return x;
  }
}

DEEPGEMM_DEVICE float transform(float sum, const EpilogueParams& e, i64 row, i64 column) {
  float value = e.alpha * sum;
  if (e.bias != nullptr) {
    value += load_element(e.bias, column * e.bias_step, static_cast<ElementType>(e.bias_type));
  }
  value = activate(value, e.activation);
  if (e.c != nullptr) {
    value += e.c_scale * load_element(e.c, row * e.c_row + column * e.c_column,
                                      static_cast<ElementType>(e.c_type));
  }
  return value * e.inverse_out_scale;
}

// The same for another group: bias and c so many elements on.
DEEPGEMM_DEVICE void move_to_group(EpilogueParams& e, i64 bias, i64 c) {
  if (e.bias != nullptr) {
    e.bias =
        static_cast<const u8*>(e.bias) + bias * bytes_of(static_cast<ElementType>(e.bias_type));
  }
  if (e.c != nullptr) {
    e.c = static_cast<const u8*>(e.c) + c * bytes_of(static_cast<ElementType>(e.c_type));
  }
}

}  // namespace deepgemm::device
