// Products grouped along the rows of a on the FP8 kernel: the dense plan's parts, with a schedule
// that reads the group vector on the device.
#pragma once

#include <cstdint>
#include <string>

#include "deepgemm/grouped.hpp"
#include "plan/gemm_plan.hpp"

namespace deepgemm::plan {

// What a grouped product adds to a dense one of the same extents: distances between the groups'
// matrices in elements (0 where there is one for all), and the vector.
struct GroupLayout {
  device::GroupVector vector{};
  std::int64_t groups = 1;
  bool stacked = false;  // a, its factors, c and out have one matrix per group
  std::int64_t a = 0, sfa = 0, b = 0, sfb = 0, out = 0, bias = 0, c = 0;
};

// A grouped product as the dense one of its first group (kind rows: of all rows of a with the first
// matrix of b), and the rest.
struct GroupedCall {
  GemmProblem product;
  GemmArgs first;
  GroupLayout layout;
  std::int64_t expected_rows = 0;  // per group, for choosing a config
};
GroupedCall grouped_call(const GroupedProblem& problem, const GroupedArgs& args);
GroupedCall grouped_call(const GroupedProblem& problem, const MaskedArgs& args);

// Empty if the FP8 kernel can take it, else why not.
std::string why_not_fp8(const GroupedCall& call);
// `policy` may be null. Throws as make_gemm_plan().
GemmPlan make_grouped_plan(const GroupedCall& call, const Policy* policy, const SmBudget& sms);
// Launches on options.stream; the device's context must be current.
void run(const GemmPlan& plan, CUfunction function, const GroupedCall& call,
         const CallOptions& options);

}  // namespace deepgemm::plan
