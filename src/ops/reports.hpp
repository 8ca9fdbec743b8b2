// A plan in words.
#pragma once

#include "deepgemm/runtime.hpp"
#include "plan/gemm_plan.hpp"

namespace deepgemm::ops {

KernelReport report_of(const plan::GemmPlan& plan);

}  // namespace deepgemm::ops
