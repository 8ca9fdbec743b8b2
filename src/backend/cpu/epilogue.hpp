// What follows the sum: alpha, bias, activation, c, out_scale.
#pragma once

#include <cmath>
#include <numbers>

#include "deepgemm/problem.hpp"

namespace deepgemm::cpu {

// Each lets NaN through.
template <class Real>
Real activate(Activation activation, Real x) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return x < 0 ? Real(0) : x;
    // x * Phi(x); erfc, because 1 + erf cancels for negative x.
    case Activation::gelu:
      return Real(0.5) * x * std::erfc(-x * Real(1 / std::numbers::sqrt2));
    case Activation::gelu_tanh: {
      constexpr Real root = Real(std::numbers::sqrt2 * std::numbers::inv_sqrtpi);  // sqrt(2 / pi)
      Real inner = root * (x + Real(0.044715) * x * x * x);
      return Real(0.5) * x * (1 + std::tanh(inner));
    }
    case Activation::silu:
      return x / (1 + std::exp(-x));
  }
  return x;
}

}  // namespace deepgemm::cpu
