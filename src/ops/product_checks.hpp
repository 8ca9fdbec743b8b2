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
// Calls `function` with each operand that the arguments of a product have; c and out are none.
template <class Args, class Function>
void for_each_input(const Args& args, Function&& function) {
  function(Operand{"a", args.a.values});
  function(Operand{"b", args.b.values});
  if (args.a.sf) function(Operand{"sfa", *args.a.sf});
  if (args.b.sf) function(Operand{"sfb", *args.b.sf});
  if constexpr (requires { args.bias; }) {
    if (args.bias) function(Operand{"bias", *args.bias});
  }
}
// Operands, c and out have memory.
template <class Args>
void check_memory(const Args& args) {
  for_each_input(args, [](const Operand& input) { check_has_data(input); });
  if (args.c) check_has_data({"c", *args.c});
  check_has_data({"out", args.out});
}
// FP64 sums are asked for on the CPU only.
void check_f64(const CallOptions& options, const Device& device);

}  // namespace deepgemm::ops
