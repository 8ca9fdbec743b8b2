// Grouped products on the general kernel: every form, dtype, granularity, layout and stride.
#pragma once

#include <cstdint>
#include <string>

#include "device/common/gemm_params.cuh"
#include "device/common/simple_configs.cuh"
#include "plan/gemm_plan.hpp"
#include "plan/grouped_call.hpp"
#include "plan/hopper.hpp"

namespace deepgemm::plan {

// One call, ready to launch. It is made from shapes, dtypes, strides and addresses; what the group
// vector holds is the kernel's business.
struct GeneralGrouped {
  device::GeneralGroupedConfig config;
  device::GeneralGroupedParams params{};
  std::int64_t tiles = 0;  // at most: more CTAs than this would have nothing to do
};

// ValueError that names the operand, for a product of more tiles than the schedules can count.
GeneralGrouped general_grouped(const GroupedCall& call);

// The plan of a call that the persistent kernel does not take, because of `reason`.
GemmPlan general_grouped_plan(const GroupedCall& call, const SmBudget& sms, std::string reason);

}  // namespace deepgemm::plan
