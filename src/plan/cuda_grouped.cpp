// Grouped products on a CUDA device. They have no kernel yet: each says so.
#include <string_view>

#include "core/text.hpp"
#include "driver/driver.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/grouped_plan.hpp"

namespace deepgemm::plan {
namespace {

[[noreturn]] void refuse(std::string_view operation, const TensorView& out) {
  throw Error(complaint(operation, join("arrays on ", describe(out.device)),
                        "arrays in host memory",
                        "this operation has no GPU kernel yet; the CPU reference computes it"));
}

// False if the FP8 kernel cannot take the call.
bool run_fp8(const GroupedCall& call, const CallOptions& options) {
  if (!why_not_fp8(call).empty()) return false;
  const int device = call.first.out.device.index;
  const SmBudget sms = sm_budget(hopper_device(device).sm_count, options.num_sms, options.policy);
  const driver::ContextGuard context(device);
  const GemmPlan plan = make_grouped_plan(call, options.policy, sms);
  run(plan, jit::load(plan.spec, device).function, call, options);
  return true;
}

}  // namespace

void grouped_gemm(const GroupedProblem& problem, const GroupedArgs& args,
                  const CallOptions& options) {
  if (!run_fp8(grouped_call(problem, args), options)) refuse("grouped_gemm", args.out);
}

void masked_gemm(const GroupedProblem& problem, const MaskedArgs& args,
                 const CallOptions& options) {
  if (!run_fp8(grouped_call(problem, args), options)) refuse("masked_gemm", args.out);
}

void k_grouped_gemm(const GroupedProblem& problem, const KGroupedArgs& args,
                    const CallOptions& options) {
  if (!run_fp8(grouped_call(problem, args), options)) refuse("k_grouped_gemm", args.out);
}

}  // namespace deepgemm::plan
