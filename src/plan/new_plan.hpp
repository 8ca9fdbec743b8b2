// The one place where a plan that was made for a call gets its kernel, and where what people asked
// to see of it is written: DEEPGEMM_TRACE, DEEPGEMM_LOG=debug, DEEPGEMM_DUMP, DEEPGEMM_NVTX. Not on
// the path of a call that is prepared already. Each problem is told once per process.
#pragma once

#include "plan/gemm_plan.hpp"
#include "plan/grouped_call.hpp"
#include "plan/problem_record.hpp"

namespace deepgemm::plan {

// Loads the kernel of `plan`, whose `range` is set if launches are to be marked. Throws as
// jit::load(), with the problem in words before what strict mode says.
const jit::LoadedKernel& load_new_plan(GemmPlan& plan, const CallSite& site,
                                       const GemmProblem& problem, const GemmArgs& first,
                                       const GemmBatch& batch);
const jit::LoadedKernel& load_new_plan(GemmPlan& plan, const CallSite& site,
                                       const GroupedCall& call);
// The same of the kernels that have no plan; `record` is what the trace gets.
CUfunction load_new_kernel(const jit::KernelSpec& spec, int device, const std::string& record);
// Whether launches of such a kernel are to be marked.
bool ranges_asked() noexcept;

}  // namespace deepgemm::plan
