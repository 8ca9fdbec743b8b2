// From Python arguments to GemmArgs and CallOptions; shared by the bindings of every op.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file: text converts the same way everywhere

#include <optional>

#include "bindings/tensor_import.hpp"
#include "bindings/tensor_output.hpp"
#include "deepgemm/gemm.hpp"
#include "deepgemm/scaling.hpp"

namespace deepgemm::bindings {

// One scaled or plain operand: an array, (values, sf), or (values, sf, granularity).
struct Operand {
  Array values;
  std::optional<Array> sf;
  std::optional<Granularity> granularity;
  std::optional<double> factor;  // an sf given as a number: folded into alpha

  ScaledView scaled_view() const;
};
Operand import_operand(nb::handle object, const char* name, const char* sf_name);
// `alpha` times the factors that a and b were given as numbers.
float import_alpha(nb::handle alpha, const Operand& a, const Operand& b);
void require_rank_of(const TensorView& view, const char* operand, int rank, const char* shape);

// (rows, k): positive integers, or None or 0 for "the whole extent".
Granularity parse_granularity(nb::handle pair, const char* argument);
// `granularity=` of a product: (rows, k) for both scaled operands, or one such pair (or None) each.
// Replaces what the operands carry, and is of (rows, k) in every layout.
void apply_granularity(nb::handle granularity, Operand& a, Operand& b);
// The granularity that an operand carries is its memory's, as quantize() saw it: made one of
// (rows, k).
void turn_granularities(Layout layout, Operand& a, Operand& b);

Activation parse_activation(nb::handle activation);
Layout parse_layout(nb::handle layout);
// A Policy or a dict of its fields. A copy, since the caller's may change while the GIL is
// released; nothing for None.
std::optional<Policy> parse_policy(nb::handle policy);

// bfloat16, but float16 and float32 of an `a` of those.
DType default_out_dtype(DType a);
// What out_dtype= says, else out's own, else `fallback`; an `out` of another dtype is a TypeError.
DType resolve_out_dtype(const std::optional<Array>& out, nb::handle out_dtype, DType fallback);

// Every argument of deepgemm.gemm but the stream and the output's allocation.
struct GemmHandles {
  nb::handle a, b, out, c, bias, activation, alpha, out_dtype, out_scale, layout, granularity;
};

// Keeps the imported arrays alive beside the views that point into them.
struct GemmCall {
  Operand a, b;
  std::optional<Array> out, c, bias;
  GemmArgs args;
  std::int64_t batch = 1, m = 0, n = 0;
  bool batched = false;  // out has rank 3
  DType out_dtype = DType::bfloat16;
};
// Imports everything; `out` stays unset if None was given, with its shape and out_dtype to allocate
// it.
GemmCall import_gemm(const GemmHandles& handles);
// A new out where none was given, which `call.args` then has.
std::optional<Output> allocate_out(GemmCall& call);

// Options of this thread (deepgemm.options), for a device; the stream is the caller's.
CallOptions call_options(Device device);

}  // namespace deepgemm::bindings
