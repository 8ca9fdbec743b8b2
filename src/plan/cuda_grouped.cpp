// Grouped products on a CUDA device: which kernel, then its launch. Nothing waits for the device,
// and nothing is read back from it: the kernels read the group vector.
#include "driver/driver.hpp"
#include "driver/range.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/general_grouped.hpp"
#include "plan/grouped_plan.hpp"
#include "plan/hopper.hpp"
#include "plan/new_plan.hpp"
#include "plan/plan_cache.hpp"

namespace deepgemm::plan {
namespace {

void run_plan(const GemmPlan& plan, CUfunction function, const GroupedCall& call, int device,
              const SmBudget& sms, const CallOptions& options) {
  if (plan.kernel == GemmKernel::persistent) return run(plan, function, call, options);
  const driver::Range range(plan.range);
  run(general_grouped(call), device, sms, options.stream);
}

template <class Args>
void dispatch(const GroupedProblem& problem, const Args& args, const CallOptions& options) {
  const int device = args.out.device.index;
  const SmBudget sms = sm_budget(hopper_device(device).sm_count, options.num_sms, options.policy);
  const GroupedCall call = grouped_call(problem, args);
  const driver::ContextGuard context(device);
  if (options.policy == nullptr) {
    const ReadyPlan& ready = ready_plan(call, device, sms);
    return run_plan(ready.plan, ready.function, call, device, sms, options);
  }
  GemmPlan plan = choose_grouped_plan(call, options.policy, sms);
  const CUfunction function = load_new_plan(plan, {device, sms, options.policy}, call);
  run_plan(plan, function, call, device, sms, options);
}

}  // namespace

void grouped_gemm(const GroupedProblem& problem, const GroupedArgs& args,
                  const CallOptions& options) {
  dispatch(problem, args, options);
}

void masked_gemm(const GroupedProblem& problem, const MaskedArgs& args,
                 const CallOptions& options) {
  dispatch(problem, args, options);
}

void k_grouped_gemm(const GroupedProblem& problem, const KGroupedArgs& args,
                    const CallOptions& options) {
  dispatch(problem, args, options);
}

}  // namespace deepgemm::plan
