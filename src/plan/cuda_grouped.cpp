// Grouped products on a CUDA device: which kernel, then its launch. Nothing waits for the device,
// and nothing is read back from it: the kernels read the group vector.
#include "core/text.hpp"
#include "driver/driver.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/gemm_policy.hpp"
#include "plan/general_grouped.hpp"
#include "plan/hopper.hpp"

namespace deepgemm::plan {
namespace {

// The general kernel has nothing to choose but how many SMs it takes.
void check_policy(const Policy* policy) {
  using Choice = WantedKernel::Choice;
  const WantedKernel wanted = wanted_kernel(policy);
  if (wanted.choice == Choice::any || wanted.choice == Choice::general) return;
  throw ValueError(complaint(wanted.field, wanted.value,
                             "no policy, kernel = general, or num_sms alone",
                             "grouped products have the general kernel only, so far"));
}

template <class Args>
void dispatch(const GroupedProblem& problem, const Args& args, const CallOptions& options) {
  const int device = args.out.device.index;
  const SmBudget sms = sm_budget(hopper_device(device).sm_count, options.num_sms, options.policy);
  check_policy(options.policy);
  // The seam: a faster kernel's plan is asked for here, and the general kernel takes what it
  // cannot.
  const GeneralGrouped call = general_grouped(problem, args);
  const driver::ContextGuard context(device);
  run(call, device, sms, options.stream);
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
