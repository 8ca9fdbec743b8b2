// Grouped products on the persistent kernel: the dense plan's parts, with a schedule that reads the
// group vector on the device.
#pragma once

#include <string>

#include "plan/gemm_plan.hpp"
#include "plan/grouped_call.hpp"
#include "plan/tma_matrices.hpp"

namespace deepgemm::plan {

// Factors of an operand's rows, whose blocks are counted per group where groups divide K.
TmaMatrix factor_matrix(const RowsByK& operand, int box_rows, const char* name,
                        const GroupLayout& layout);
// Empty if the persistent kernel can take it, else why not.
std::string why_not_persistent(const GroupedCall& call);
// `policy` may be null. Throws as make_gemm_plan().
GemmPlan make_grouped_plan(const GroupedCall& call, const Policy* policy, const SmBudget& sms);
// What a call gets: the plan of the persistent kernel, or where that does not take it, or a policy
// asks for the other, that of the general one. ValueError as make_gemm_plan() and
// general_grouped().
GemmPlan choose_grouped_plan(const GroupedCall& call, const Policy* policy, const SmBudget& sms);
// Of a plan that it made.
PreparedLaunch prepare_launch(const GemmPlan& plan, CUfunction function, const GroupedCall& call,
                              const CallOptions& options);

}  // namespace deepgemm::plan
