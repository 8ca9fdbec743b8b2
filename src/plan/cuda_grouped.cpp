// Grouped products on a CUDA device: which kernel, and its parameters. Nothing waits for the
// device, and nothing is read back from it: the kernels read the group vector.
#include "driver/driver.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/gemm_policy.hpp"
#include "plan/general_grouped.hpp"
#include "plan/grouped_plan.hpp"
#include "plan/hopper.hpp"

namespace deepgemm::plan {
namespace {

// Empty if the persistent kernel is to take the call, else why not; ValueError if the policy asks
// for a kernel that cannot.
std::string why_general(const GroupedCall& call, const Policy* policy) {
  using Choice = WantedKernel::Choice;
  const WantedKernel wanted = wanted_kernel(policy);
  if (wanted.choice == Choice::general) return "policy asks for it";
  if (wanted.choice == Choice::decode) check_possible(wanted, "the product is grouped");
  std::string obstacle = why_not_persistent(call);
  if (wanted.choice != Choice::any) check_possible(wanted, obstacle);
  return obstacle;
}

template <class Args>
Prepared prepare_grouped(const GroupedProblem& problem, const Args& args,
                         const CallOptions& options) {
  const int device = args.out.device.index;
  const SmBudget sms = sm_budget(hopper_device(device).sm_count, options.num_sms, options.policy);
  const GroupedCall call = grouped_call(problem, args);
  const driver::ContextGuard context(device);
  std::string obstacle = why_general(call, options.policy);
  GemmPlan plan = obstacle.empty() ? make_grouped_plan(call, options.policy, sms)
                                   : general_grouped_plan(call, sms, std::move(obstacle));
  const jit::LoadedKernel& kernel = jit::load(plan.spec, device);
  const PreparedLaunch launch = prepare_launch(plan, kernel.function, call, options);
  return {PreparedCall(device, {launch}), std::move(plan), kernel};
}

}  // namespace

Prepared prepare(const GroupedProblem& problem, const GroupedArgs& args,
                 const CallOptions& options) {
  return prepare_grouped(problem, args, options);
}

Prepared prepare(const GroupedProblem& problem, const MaskedArgs& args,
                 const CallOptions& options) {
  return prepare_grouped(problem, args, options);
}

Prepared prepare(const GroupedProblem& problem, const KGroupedArgs& args,
                 const CallOptions& options) {
  return prepare_grouped(problem, args, options);
}

}  // namespace deepgemm::plan
