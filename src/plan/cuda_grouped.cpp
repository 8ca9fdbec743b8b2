// Grouped products on a CUDA device: which kernel, and its parameters. Nothing waits for the
// device, and nothing is read back from it: the kernels read the group vector.
#include "driver/driver.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/grouped_plan.hpp"
#include "plan/hopper.hpp"
#include "plan/new_plan.hpp"

namespace deepgemm::plan {
namespace {

template <class Args>
Prepared prepare_grouped(const GroupedProblem& problem, const Args& args,
                         const CallOptions& options) {
  const int device = args.out.device.index;
  const SmBudget sms = sm_budget(hopper_device(device).sm_count, options.num_sms, options.policy);
  const GroupedCall call = grouped_call(problem, args);
  const driver::ContextGuard context(device);
  GemmPlan plan = choose_grouped_plan(call, options.policy, sms);
  const jit::LoadedKernel& kernel = load_new_plan(plan, {device, sms, options.policy}, call);
  const PreparedLaunch launch = prepare_launch(plan, kernel.function, call, options);
  return {PreparedCall(device, {launch}), kernel};
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
