// gemm on a CUDA device: plan, then launch.
#include "driver/driver.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/hopper.hpp"
#include "plan/plan_cache.hpp"

namespace deepgemm::plan {
void gemm(const GemmProblem& problem, const GemmArgs& args, const CallOptions& options) {
  const int device = args.out.device.index;
  const SmBudget sms = sm_budget(hopper_device(device).sm_count, options.num_sms, options.policy);
  const driver::ContextGuard context(device);
  if (options.policy != nullptr) {
    const GemmPlan plan = make_gemm_plan(problem, args, options.policy, sms);
    run(plan, jit::load(plan.spec, device).function, problem, args, options);
    return;
  }
  const ReadyPlan& ready = ready_plan(problem, args, device, sms);
  run(ready.plan, ready.function, problem, args, options);
}

}  // namespace deepgemm::plan
