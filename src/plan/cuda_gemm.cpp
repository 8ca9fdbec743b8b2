// gemm on a CUDA device: plan, then launch.
#include <algorithm>
#include <cstddef>
#include <vector>

#include "driver/driver.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/hopper.hpp"
#include "plan/plan_cache.hpp"

namespace deepgemm::plan {
namespace {

// After how many matrices every operand lies at the same address modulo 16 bytes again: plans
// depend on that, and on nothing else that differs within a batch.
std::int64_t period_of_plans(const GemmArgs& first, const GemmBatch& batch) {
  std::int64_t bits = 16;
  const auto add = [&](const TensorView& view, std::int64_t distance) {
    bits |= distance * size_in_bytes(view.dtype);
  };
  add(first.a.values, batch.a);
  add(first.b.values, batch.b);
  add(first.out, batch.out);
  if (first.a.sf) add(*first.a.sf, batch.sfa);
  if (first.b.sf) add(*first.b.sf, batch.sfb);
  if (first.c) add(*first.c, batch.c);
  const std::int64_t step = bits & -bits;  // the power of two that divides every distance
  return 16 / step;
}

ReadyPlan plan_of(const GemmProblem& problem, const GemmArgs& args, int device, const SmBudget& sms,
                  const Policy* policy) {
  if (policy == nullptr) return ready_plan(problem, args, device, sms);
  ReadyPlan made;
  made.plan = make_gemm_plan(problem, args, policy, sms);
  made.function = jit::load(made.plan.spec, device).function;
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
    const GemmPlan plan = make_gemm_plan(problem, first, options.policy, sms, batch);
    if (batch.count == 1 || plan.whole_batch)
      return run(plan, jit::load(plan.spec, device).function, problem, first, batch, options);
  }
  run_batch(problem, first, batch, device, sms, options);
}

}  // namespace deepgemm::plan
