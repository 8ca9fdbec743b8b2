// Grouped products on a CUDA device: which kernel, then its launch. Nothing waits for the device,
// and nothing is read back from it: the kernels read the group vector.
#include "driver/driver.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/gemm_policy.hpp"
#include "plan/general_grouped.hpp"
#include "plan/grouped_plan.hpp"
#include "plan/hopper.hpp"
#include "plan/plan_cache.hpp"

namespace deepgemm::plan {
namespace {

// Whether the policy lets the persistent kernel take the call; ValueError if it asks for a kernel
// that cannot.
bool takes_persistent(const GroupedCall& call, const Policy& policy) {
  using Choice = WantedKernel::Choice;
  const WantedKernel wanted = wanted_kernel(&policy);
  if (wanted.choice == Choice::general) return false;
  if (wanted.choice == Choice::decode) check_possible(wanted, "the product is grouped");
  const std::string obstacle = why_not_persistent(call);
  if (wanted.choice != Choice::any) check_possible(wanted, obstacle);
  return obstacle.empty();
}

// False where the general kernel has to.
bool run_persistent(const GroupedCall& call, int device, const SmBudget& sms,
                    const CallOptions& options) {
  if (options.policy == nullptr) {
    const ReadyPlan& ready = ready_plan(call, device, sms);
    if (ready.plan.kernel != GemmKernel::persistent) return false;
    run(ready.plan, ready.function, call, options);
    return true;
  }
  if (!takes_persistent(call, *options.policy)) return false;
  const GemmPlan plan = make_grouped_plan(call, options.policy, sms);
  run(plan, jit::load(plan.spec, device).function, call, options);
  return true;
}

template <class Args>
void dispatch(const GroupedProblem& problem, const Args& args, const CallOptions& options) {
  const int device = args.out.device.index;
  const SmBudget sms = sm_budget(hopper_device(device).sm_count, options.num_sms, options.policy);
  const GroupedCall call = grouped_call(problem, args);
  const driver::ContextGuard context(device);
  if (!run_persistent(call, device, sms, options)) {
    run(general_grouped(call), device, sms, options.stream);
  }
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
