// Problems on a CUDA device: choose a config, load its kernel, launch. Arguments are already
// checked.
#pragma once

#include "deepgemm/gemm.hpp"
#include "deepgemm/grouped.hpp"
#include "deepgemm/quantize.hpp"
#include "deepgemm/scale_layout.hpp"
#include "jit/kernel.hpp"
#include "plan/gemm_batch.hpp"
#include "plan/gemm_plan.hpp"
#include "plan/prepared_call.hpp"

namespace deepgemm::plan {

// A product that is ready to run, and where its kernel came from (of a batch that is launched
// product by product, the first one's).
struct Prepared {
  PreparedCall call;
  jit::LoadedKernel kernel;
};

// `first`: of the first matrices, all of rank 2, and every sf as [rows, k].
Prepared prepare(const GemmProblem& problem, const GemmArgs& first, const GemmBatch& batch,
                 const CallOptions& options);
// problem = make_problem(args). sf of a stack is [G, rows, k] (strides of 0 where one element is
// for all), that of a matrix [rows, k], in every layout. The values of the group vectors are
// unchecked.
Prepared prepare(const GroupedProblem& problem, const GroupedArgs& args,
                 const CallOptions& options);
Prepared prepare(const GroupedProblem& problem, const MaskedArgs& args, const CallOptions& options);
Prepared prepare(const GroupedProblem& problem, const KGroupedArgs& args,
                 const CallOptions& options);
void quantize(const TensorView& x, const TensorView& values, const TensorView& sf,
              const QuantizeOptions& options, const CallOptions& call);
void dequantize(const ScaledView& x, const TensorView& out, const CallOptions& call);
// The kernel that quantize() would launch for one matrix of values; no device is asked.
jit::KernelSpec kernel_of_quantize(const TensorView& values, const Granularity& granularity);
// Stacks of matrices with elements, [G, rows, columns]; groups count in 32 bits.
void copy_scales(const TensorView& sf, const TensorView& out, const CallOptions& call);
void pack_ue8m0(const TensorView& sf, const TensorView& packed, const PackGroups& groups,
                const CallOptions& call);
void unpack_ue8m0(const TensorView& packed, const TensorView& sf,
                  const std::optional<KSizes>& groups, const CallOptions& call);

}  // namespace deepgemm::plan
