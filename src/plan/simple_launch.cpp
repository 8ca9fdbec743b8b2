#include "plan/simple_launch.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "driver/driver.hpp"
#include "driver/range.hpp"
#include "plan/hopper.hpp"
#include "plan/new_plan.hpp"

namespace deepgemm::plan {
namespace {

CUfunction function_of(const SimpleKernel& kernel, int device,
                       const std::function<std::string()>& record) {
  thread_local unsigned told = 0;
  if ((told >> kernel.number & 1U) != 0) return jit::load(kernel.spec, device).function;
  const CUfunction function = load_new_kernel(kernel.spec, device, record());
  told |= 1U << kernel.number;
  return function;
}

}  // namespace

void launch_simple(const SimpleKernel& kernel, int device, const Work& work, void* params,
                   const CallOptions& call, const std::function<std::string()>& record) {
  const driver::ContextGuard context(device);
  const driver::Range range(ranges_asked() ? kernel.spec.name : std::string());
  const SmBudget sms = sm_budget(hopper_device(device).sm_count, call.num_sms, call.policy);
  // Enough CTAs to fill the device several times; the kernels stride over the rest.
  const std::int64_t most = sms.limited ? sms.count : sms.count * std::int64_t{16};
  driver::LaunchShape shape;
  shape.grid =
      static_cast<unsigned>(std::min<std::int64_t>(ceil_div(work.items, work.items_per_cta), most));
  shape.block = kernel.threads;
  shape.shared_bytes = static_cast<unsigned>(kernel.spec.shared_bytes);
  driver::launch(function_of(kernel, device, record), shape, call.stream, params);
}

}  // namespace deepgemm::plan
