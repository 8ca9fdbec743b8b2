// Problems on a CUDA device: choose a config, load its kernel, launch. Arguments are already
// checked.
#pragma once

#include "deepgemm/gemm.hpp"
#include "deepgemm/quantize.hpp"

namespace deepgemm::plan {

void gemm(const GemmProblem& problem, const GemmArgs& args, const CallOptions& options);
void quantize(const TensorView& x, const TensorView& values, const TensorView& sf,
              const QuantizeOptions& options, const CallOptions& call);
void dequantize(const ScaledView& x, const TensorView& out, const CallOptions& call);

}  // namespace deepgemm::plan
