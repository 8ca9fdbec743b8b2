// What is to be computed, as plain data: comparable, hashable, free of addresses.
#pragma once

#include <cstdint>

#include "deepgemm/dtype.hpp"
#include "deepgemm/scaling.hpp"

namespace deepgemm {

// Memory of a and b as in BLAS, row-major; the first letter is a's, the second b's:
// a is [M, K] for n and [K, M] for t; b is [K, N] for n and [N, K] for t.
enum class Layout : std::uint8_t { nt, nn, tn, tt };
constexpr bool a_is_k_by_m(Layout layout) noexcept {
  return layout == Layout::tn || layout == Layout::tt;
}
constexpr bool b_is_k_by_n(Layout layout) noexcept {
  return layout == Layout::nn || layout == Layout::tn;
}
// gelu is the exact erf form, gelu_tanh the tanh approximation.
enum class Activation : std::uint8_t { none, relu, gelu, gelu_tanh, silu };

// out[M, N] = activation(alpha * A @ B + bias) + c, `batch` times
struct GemmProblem {
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t batch = 1;
  DType a_dtype = DType::float8_e4m3fn;
  DType b_dtype = DType::float8_e4m3fn;
  DType out_dtype = DType::bfloat16;
  Layout layout = Layout::nt;
  Activation activation = Activation::none;
  bool a_scaled = true, b_scaled = true;
  bool has_c = false, has_bias = false, has_alpha = false;
  Granularity a_granularity{1, 128};
  Granularity b_granularity{128, 128};
  friend bool operator==(const GemmProblem&, const GemmProblem&) = default;
};

// What divides the groups of a grouped product: the rows of one matrix, matrices of which the first
// rows count, or K.
enum class GroupKind : std::uint8_t { rows, masked, k };
// How the rows of one matrix are given to groups; see GroupedArgs.
enum class GroupForm : std::uint8_t { sizes, offsets, ends, labels };

struct GroupedProblem {
  GroupKind kind = GroupKind::rows;
  GroupForm form = GroupForm::sizes;
  std::int64_t groups = 0;
  // Of one group, with the extents of the arrays: all rows of a (kind rows: M; masked: Mmax), all
  // K.
  GemmProblem product;
  friend bool operator==(const GroupedProblem&, const GroupedProblem&) = default;
};

}  // namespace deepgemm
