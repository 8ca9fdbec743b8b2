// From Python arguments to GemmArgs and CallOptions; shared by the bindings of every op.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file: text converts the same way everywhere

#include <optional>

#include "bindings/tensor_import.hpp"
#include "bindings/tensor_output.hpp"
#include "deepgemm/gemm.hpp"
#include "deepgemm/grouped.hpp"
#include "deepgemm/scaling.hpp"

namespace deepgemm::bindings {

// Scale factors: an array, a number, or nothing.
struct Factors {
  Array array;
  std::optional<double> number;  // folded into alpha
};
// What stands behind one scaled or plain operand: an array, (values, sf), or (values, sf,
// granularity).
struct Operand {
  Array values;
  Factors sf;
};
// Writes `view`, which is new.
Operand import_operand(nb::handle object, const char* name, const char* sf_name, ScaledView& view);
// Nothing for None.
Array import_optional(nb::handle object, const char* operand, std::optional<TensorView>& view);
Array import_optional_output(nb::handle object, const char* operand, TensorView& view);
// `alpha` times the factors that a and b were given as numbers.
float fold_factors(double alpha, const Operand& a, const Operand& b);
void require_rank_of(const TensorView& view, const char* operand, int rank, const char* shape);

// (rows, k): positive integers, or None or 0 for "the whole extent".
Granularity parse_granularity(nb::handle pair, const char* argument);
// `granularity=` of a product: (rows, k) for both scaled operands, or one such pair (or None) each.
// Replaces what the operands carry, and is of (rows, k) in every layout.
struct Granularities {
  std::optional<Granularity> a, b;
};
Granularities parse_granularities(nb::handle granularity);
void apply_granularities(const Granularities& given, ScaledView& a, ScaledView& b);
// The granularity that an operand carries is its memory's, as quantize() saw it: made one of
// (rows, k).
void turn_granularities(Layout layout, ScaledView& a, ScaledView& b);

Activation parse_activation(nb::handle activation);
Layout parse_layout(nb::handle layout);
// A Policy or a dict of its fields. A copy, since the caller's may change while the GIL is
// released; nothing for None.
std::optional<Policy> parse_policy(nb::handle policy);

// bfloat16, but float16 and float32 of an `a` of those.
DType default_out_dtype(DType a);
// What out_dtype= says, else that of out if one is given, else `fallback`; an out of another dtype
// is a TypeError.
DType resolve_out_dtype(const Array& out, const TensorView& view, std::optional<DType> out_dtype,
                        DType fallback);

// The arrays of a product as the caller gave them: borrowed.
struct ArrayHandles {
  nb::handle a, b, out = Py_None, c = Py_None, bias = Py_None, groups = Py_None;
};

// Its other arguments, but the stream and how to compute; those that an operation lacks are None.
struct OptionHandles {
  nb::handle layout, alpha, out_dtype;
  nb::handle activation = Py_None, granularity = Py_None, out_scale = Py_None;
};
struct ProductOptions {
  Layout layout = Layout::nt;
  double alpha = 1;
  std::optional<DType> out_dtype;
  Activation activation = Activation::none;
  Granularities granularity;
  float out_scale = 1;
  // Of grouped products alone.
  GroupForm form{};
  std::int64_t alignment = 1;
  std::optional<std::int64_t> expected_rows;
};
ProductOptions parse_options(const OptionHandles& handles);

// The arguments of a product, and what stands behind their arrays.
struct GemmCall {
  // Imports everything; without an `out`, there is out_dtype to allocate it.
  GemmCall(const ArrayHandles& arrays, const ProductOptions& options);

  GemmArgs args;  // first: the others are made by writing it
  Operand a, b;
  Array out, c, bias;
  DType out_dtype = DType::bfloat16;
};
// The extents that out must have.
struct OutExtents {
  bool batched = false;  // [batch, m, n], else [m, n]
  std::int64_t batch = 1, m = 0, n = 0;
};
OutExtents extents_of_out(const GemmArgs& args);
// A new out where none was given, which `call.args` then has.
std::optional<Output> allocate_out(GemmCall& call);

// Options of this thread (deepgemm.options), for a device; the stream is the caller's.
CallOptions call_options(Device device);

}  // namespace deepgemm::bindings
