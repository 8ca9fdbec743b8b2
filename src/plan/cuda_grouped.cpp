// Grouped products on a CUDA device: which kernel, then its launch. Nothing waits for the device,
// and nothing is read back from it: the kernels read the group vector.
#include "driver/driver.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/gemm_policy.hpp"
#include "plan/general_grouped.hpp"
#include "plan/grouped_plan.hpp"
#include "plan/hopper.hpp"

namespace deepgemm::plan {
namespace {

// Whether the FP8 kernel takes the call; ValueError if the policy asks for a kernel that cannot.
bool takes_persistent(const GroupedCall& call, const Policy* policy) {
  using Choice = WantedKernel::Choice;
  const WantedKernel wanted = wanted_kernel(policy);
  if (wanted.choice == Choice::general) return false;
  if (wanted.choice == Choice::decode) check_possible(wanted, "the product is grouped");
  const std::string obstacle = why_not_persistent(call);
  if (wanted.choice != Choice::any) check_possible(wanted, obstacle);
  return obstacle.empty();
}

template <class Args>
void dispatch(const GroupedProblem& problem, const Args& args, const CallOptions& options) {
  const int device = args.out.device.index;
  const SmBudget sms = sm_budget(hopper_device(device).sm_count, options.num_sms, options.policy);
  const GroupedCall call = grouped_call(problem, args);
  if (takes_persistent(call, options.policy)) {
    const GemmPlan plan = make_grouped_plan(call, options.policy, sms);
    const driver::ContextGuard context(device);
    run(plan, jit::load(plan.spec, device).function, call, options);
    return;
  }
  const GeneralGrouped general = general_grouped(call);
  const driver::ContextGuard context(device);
  run(general, device, sms, options.stream);
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
