// gemm on a CUDA device: plan, then launch.
#include <algorithm>

#include "core/text.hpp"
#include "driver/driver.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/hopper.hpp"
#include "plan/plan_cache.hpp"

namespace deepgemm::plan {
namespace {

int sms_to_use(const driver::DeviceInfo& info, const CallOptions& options) {
  if (options.num_sms < 0) {
    throw ValueError(complaint("num_sms", to_text(options.num_sms), "0 (all) or more"));
  }
  return options.num_sms == 0 ? info.sm_count : std::min(options.num_sms, info.sm_count);
}

}  // namespace

void gemm(const GemmProblem& problem, const GemmArgs& args, const CallOptions& options) {
  const int device = args.out.device.index;
  const driver::DeviceInfo& info = hopper_device(device);
  const int num_sms = sms_to_use(info, options);
  const driver::ContextGuard context(device);
  if (options.policy != nullptr) {
    const GemmPlan plan = make_gemm_plan(problem, args, options.policy, num_sms);
    run(plan, jit::load(plan.spec, device).function, problem, args, options);
    return;
  }
  const ReadyPlan& ready = ready_plan(problem, args, device, num_sms);
  run(ready.plan, ready.function, problem, args, options);
}

}  // namespace deepgemm::plan
