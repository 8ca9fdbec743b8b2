// deepgemm::quantize and dequantize: the checks, then the CPU backend or the GPU kernels.
#include "deepgemm/quantize.hpp"

#include <cmath>

#include "backend/cpu/cpu_backend.hpp"
#include "core/text.hpp"
#include "ops/checks.hpp"
#include "ops/granularity.hpp"
#include "ops/stacks.hpp"
#include "plan/cuda_backend.hpp"

namespace deepgemm {
namespace {

using ops::Operand;

bool is_cpu(const TensorView& view) { return view.device.kind == DeviceKind::cpu; }

// One matrix, or a stack of them.
void check_matrices(const Operand& operand) {
  if (operand.view.rank != 3) ops::check_rank(operand, 2, "[rows, K], or rank 3, [G, rows, K]");
  ops::check_extents(operand);
}

// The shape of `view`, as `reference` has it.
void check_same_shape(const Operand& operand, const TensorView& reference, std::string_view what) {
  const auto& shape = reference.shape;
  if (reference.rank == 2) {
    ops::check_shape(operand, {shape[0], shape[1]}, what);
  } else {
    ops::check_shape(operand, {shape[0], shape[1], shape[2]}, what);
  }
}

// Calls function(g) for each matrix of a stack.
template <class Function>
void for_each_matrix(const TensorView& stack, Function&& function) {
  for (std::int64_t g = 0; g < stack.shape[0]; ++g) function(g);
}

// The unquantised side. float64 only exists on the CPU.
void check_wide(const Operand& operand) {
  if (is_cpu(operand.view)) {
    ops::check_dtype(operand, {DType::float32, DType::bfloat16, DType::float16, DType::float64});
  } else {
    ops::check_dtype(operand, {DType::float32, DType::bfloat16, DType::float16});
  }
  check_matrices(operand);
}

void check_options(const QuantizeOptions& options) {
  ops::check_granularity("granularity", options.granularity);
  if (std::isfinite(options.amax_floor) && options.amax_floor >= 0) return;
  throw ValueError(
      complaint("amax_floor", to_text(options.amax_floor), "a finite number from 0 up"));
}

void check_values_out(const Operand& values, const Operand& x) {
  ops::check_dtype(values, {DType::float8_e4m3fn, DType::float8_e5m2});
  check_same_shape(values, x.view, "the shape of x");
  ops::check_extents(values);
  ops::check_device(values, x);
  ops::check_output(values);
}

void check_scales_out(const Operand& sf, const Operand& x, const QuantizeOptions& options) {
  if (options.power_of_two) {
    ops::check_dtype(sf, {DType::float32, DType::float8_e8m0fnu}, "power_of_two is on");
  } else {
    ops::check_dtype(sf, {DType::float32}, "float8_e8m0fnu needs power_of_two");
  }
  ops::check_extents(sf);
  std::int64_t rows = x.view.shape[x.view.rank - 2], k = x.view.shape[x.view.rank - 1];
  if (x.view.rank == 3) {
    const ScaleExtents extents = scale_extents(options.granularity, rows, k);
    ops::check_shape(sf, {x.view.shape[0], extents.rows, extents.k},
                     join("granularity ", describe(options.granularity), " of matrices of ", rows,
                          " rows by ", k, " of K"));
  } else if (!ops::fits(sf.view, options.granularity, rows, k)) {
    ops::refuse_scale_shape(sf.name, sf.view, options.granularity, rows, k);
  }
  ops::check_device(sf, x);
  ops::check_output(sf);
}

// The resolved granularity of a checked dequantize().
Granularity check_dequantize(const ScaledView& x, const TensorView& out) {
  const Operand values{"values", x.values};
  ops::check_dtype(values, {DType::float8_e4m3fn, DType::float8_e5m2, DType::bfloat16,
                            DType::float16, DType::float32});
  check_matrices(values);
  check_wide({"out", out});
  check_same_shape({"out", out}, x.values, "the shape of values");
  ops::check_device({"out", out}, values);
  ops::check_output({"out", out});
  ops::check_no_overlap({"out", out}, values);
  if (x.sf) {
    const Operand sf{"sf", *x.sf};
    ops::check_dtype(sf, {DType::float32, DType::float8_e8m0fnu}, "scale factors");
    ops::check_extents(sf);
    ops::check_device(sf, values);
    ops::check_no_overlap({"out", out}, sf);
  }
  if (x.values.rank == 3) {
    return ops::resolve_stack("values", "sf", x, ops::readings_of_rows());
  }
  return ops::resolve_granularity("values", "sf", x, x.values.shape[0], x.values.shape[1],
                                  ops::readings_of_rows());
}

// Of one matrix, checked and not empty.
void quantize_matrix(const TensorView& x, const TensorView& values, const TensorView& sf,
                     const QuantizeOptions& options, const CallOptions& call) {
  if (is_cpu(x)) {
    cpu::quantize(x, values, sf, options);
  } else {
    plan::quantize(x, values, sf, options, call);
  }
}

void dequantize_matrix(const ScaledView& x, const TensorView& out, const CallOptions& call) {
  if (is_cpu(out)) {
    cpu::dequantize(x, out);
  } else {
    plan::dequantize(x, out, call);
  }
}

}  // namespace

void quantize(const TensorView& x, const TensorView& values, const TensorView& sf,
              const QuantizeOptions& options, const CallOptions& call) {
  check_options(options);
  ops::check_sms(call);
  const Operand source{"x", x}, codes{"values", values}, factors{"sf", sf};
  check_wide(source);
  check_values_out(codes, source);
  check_scales_out(factors, source, options);
  ops::check_no_overlap(codes, source);
  ops::check_no_overlap(factors, source);
  ops::check_no_overlap(codes, factors);
  for (const Operand& operand : {source, codes, factors}) ops::check_has_data(operand);
  if (sf.size() == 0) return;  // no block, so no element either
  if (x.rank == 2) return quantize_matrix(x, values, sf, options, call);
  for_each_matrix(x, [&](std::int64_t g) {
    quantize_matrix(selected(x, g), selected(values, g), selected(sf, g), options, call);
  });
}

void dequantize(const ScaledView& x, const TensorView& out, const CallOptions& call) {
  ops::check_sms(call);
  ScaledView resolved = x;
  resolved.granularity = check_dequantize(x, out);
  ops::check_has_data({"values", x.values});
  if (x.sf) ops::check_has_data({"sf", *x.sf});
  ops::check_has_data({"out", out});
  if (out.size() == 0) return;
  if (out.rank == 2) return dequantize_matrix(resolved, out, call);
  if (x.sf) resolved.sf = ops::stacked_scales(*x.sf, out.shape[0]);
  for_each_matrix(out, [&](std::int64_t g) {
    dequantize_matrix(ops::matrix_of(resolved, g), selected(out, g), call);
  });
}

}  // namespace deepgemm
