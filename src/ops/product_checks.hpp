// What the products check alike: operands, factors, and what follows the sum.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "deepgemm/gemm.hpp"
#include "ops/checks.hpp"

namespace deepgemm::ops {

// "nt"; a ValueError for a number that is none of the four.
std::string_view layout_name(Layout layout);
void check_activation(Activation activation);
// The values of a or b: dtype, rank, extents.
void check_multiplicand(const Operand& operand, int rank, std::string_view shape_in_words);
// dtype, extents and device of scale factors.
void check_scale_factors(const Operand& sf, const Operand& reference);
// dtype, shape, device; writable, each element in its own place.
void check_result(const Operand& out, std::initializer_list<DType> allowed,
                  std::initializer_list<std::int64_t> shape, std::string_view what,
                  const Operand& reference);
// c of this shape: out's dtype or float32; out itself, or memory apart from it.
void check_addend(const Operand& c, const Operand& out, std::initializer_list<std::int64_t> shape,
                  std::string_view what, const Operand& reference);
void check_bias(const Operand& bias, std::initializer_list<std::int64_t> shape,
                std::string_view what, const Operand& reference);
// FP64 sums are asked for on the CPU only.
void check_f64(const CallOptions& options, const Device& device);

}  // namespace deepgemm::ops
