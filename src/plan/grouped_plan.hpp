// Grouped products on the FP8 kernel: the dense plan's parts, with a schedule that reads the group
// vector on the device.
#pragma once

#include <cstdint>
#include <string>

#include "deepgemm/grouped.hpp"
#include "plan/gemm_plan.hpp"
#include "plan/tma_matrices.hpp"

namespace deepgemm::plan {

// What a grouped product adds to a dense one of the same extents: which operands have one matrix
// per group, the distances between these in elements, and the vector.
struct GroupLayout {
  GroupKind kind = GroupKind::rows;
  device::GroupVector vector{};
  std::int64_t groups = 1;
  std::int64_t a = 0, sfa = 0, b = 0, sfb = 0, out = 0, bias = 0, c = 0;
  int blocks = 0;  // of factors along K, if groups divide K

  std::int64_t a_matrices() const { return kind == GroupKind::masked ? groups : 1; }
  std::int64_t b_matrices() const { return kind == GroupKind::k ? 1 : groups; }
  std::int64_t out_matrices() const { return kind == GroupKind::rows ? 1 : groups; }
};

// A grouped product as the dense one of its first group (kind rows: of all rows of a with the first
// matrix of b; kind k: over all of K), and the rest.
struct GroupedCall {
  GemmProblem product;
  GemmArgs first;
  GroupLayout layout;
  std::int64_t expected = 0;  // per group, for choosing a config: rows, or K
};
GroupedCall grouped_call(const GroupedProblem& problem, const GroupedArgs& args);
GroupedCall grouped_call(const GroupedProblem& problem, const MaskedArgs& args);
GroupedCall grouped_call(const GroupedProblem& problem, const KGroupedArgs& args);

// Factors of an operand's rows, whose blocks are counted per group where groups divide K.
TmaMatrix factor_matrix(const RowsByK& operand, int box_rows, const char* name,
                        const GroupLayout& layout);
// Empty if the FP8 kernel can take it, else why not.
std::string why_not_fp8(const GroupedCall& call);
// `policy` may be null. Throws as make_gemm_plan().
GemmPlan make_grouped_plan(const GroupedCall& call, const Policy* policy, const SmBudget& sms);
// Launches on options.stream; the device's context must be current.
void run(const GemmPlan& plan, CUfunction function, const GroupedCall& call,
         const CallOptions& options);

}  // namespace deepgemm::plan
