// gemm on a CUDA device: plan, then launch.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "driver/driver.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/hopper.hpp"
#include "plan/new_plan.hpp"
#include "plan/plan_cache.hpp"

namespace deepgemm::plan {
namespace {

ReadyPlan plan_of(const GemmProblem& problem, const GemmArgs& args, int device, const SmBudget& sms,
                  const Policy* policy) {
  if (policy == nullptr) return ready_plan(problem, args, device, sms);
  ReadyPlan made;
  made.plan = make_gemm_plan(problem, args, policy, sms);
  made.function = load_new_plan(made.plan, {device, sms, policy}, problem, args, {});
  return made;
}

// Every plan is made before the first launch: a batch is refused as a whole.
void run_batch(const GemmProblem& problem, const GemmArgs& first, const GemmBatch& batch,
               int device, const SmBudget& sms, const CallOptions& options) {
  GemmBatch different = batch;
  different.count = std::min(batch.count, period_of_plans(first, batch));
  std::vector<ReadyPlan> plans;
  for_each_product(first, different, [&](const GemmArgs& args, std::int64_t) {
    plans.push_back(plan_of(problem, args, device, sms, options.policy));
  });
  for_each_product(first, batch, [&](const GemmArgs& args, std::int64_t i) {
    const ReadyPlan& ready = plans[static_cast<std::size_t>(i % different.count)];
    run(ready.plan, ready.function, problem, args, {}, options);
  });
}

}  // namespace

void gemm(const GemmProblem& problem, const GemmArgs& first, const GemmBatch& batch,
          const CallOptions& options) {
  const int device = first.out.device.index;
  const SmBudget sms = sm_budget(hopper_device(device).sm_count, options.num_sms, options.policy);
  const driver::ContextGuard context(device);
  if (options.policy == nullptr) {
    const ReadyPlan& ready = ready_plan(problem, first, device, sms, batch);
    if (batch.count == 1 || ready.plan.whole_batch)
      return run(ready.plan, ready.function, problem, first, batch, options);
  } else {
    GemmPlan plan = make_gemm_plan(problem, first, options.policy, sms, batch);
    if (batch.count == 1 || plan.whole_batch) {
      const CUfunction function =
          load_new_plan(plan, {device, sms, options.policy}, problem, first, batch);
      return run(plan, function, problem, first, batch, options);
    }
  }
  run_batch(problem, first, batch, device, sms, options);
}

}  // namespace deepgemm::plan
