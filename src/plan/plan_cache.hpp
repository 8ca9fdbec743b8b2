// The last plans of this thread, found by a POD key without a lock.
#pragma once

#include <cstdint>

#include "plan/gemm_plan.hpp"
#include "plan/grouped_call.hpp"

namespace deepgemm::plan {

struct ReadyPlan {
  GemmPlan plan;
  CUfunction function = nullptr;
};

// The plan of a call without a policy, made and loaded if this thread has not met it yet. The
// reference lives until the thread's next call.
const ReadyPlan& ready_plan(const GemmProblem& problem, const GemmArgs& args, int device,
                            const SmBudget& sms, const GemmBatch& batch = {});
// The same of a grouped call.
const ReadyPlan& ready_plan(const GroupedCall& call, int device, const SmBudget& sms);

}  // namespace deepgemm::plan
