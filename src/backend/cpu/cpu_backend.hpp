// The reference: what every other backend is measured against. Arguments are already checked.
#pragma once

#include "deepgemm/gemm.hpp"
#include "deepgemm/quantize.hpp"

namespace deepgemm::cpu {

// problem = make_problem(args): granularities are resolved in it. Values lie as problem.layout
// says; sf is [rows, k] in every layout. FP32 sums promoted per 128 of K, or FP64 throughout if
// accumulate_in_f64.
void gemm(const GemmProblem& problem, const GemmArgs& args, bool accumulate_in_f64);
void quantize(const TensorView& x, const TensorView& values, const TensorView& sf,
              const QuantizeOptions& options);
void dequantize(const ScaledView& x, const TensorView& out);

}  // namespace deepgemm::cpu
