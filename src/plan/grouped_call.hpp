// Grouped products of every kind in one form, which both kernels of them take.
#pragma once

#include <cstdint>

#include "deepgemm/grouped.hpp"
#include "device/common/group_vector.cuh"
#include "plan/gemm_batch.hpp"

namespace deepgemm::plan {

// What a grouped product, or a batch, adds to a dense one of the same extents: which operands have
// one matrix per group, the distances between these in elements, and the vector.
struct GroupLayout {
  GroupKind kind = GroupKind::rows;
  device::GroupVector vector{};
  std::int64_t groups = 1;
  bool a_stacked = false, b_stacked = false, out_stacked = false;
  std::int64_t a = 0, sfa = 0, b = 0, sfb = 0, out = 0, bias = 0, c = 0;
  std::int64_t blocks = 0;  // of factors along K, if groups divide K; INT32_MAX: no factors

  std::int64_t a_matrices() const { return a_stacked ? groups : 1; }
  std::int64_t b_matrices() const { return b_stacked ? groups : 1; }
  std::int64_t out_matrices() const { return out_stacked ? groups : 1; }
};

// Of a batch: operands with a distance of 0 have one matrix for all.
GroupLayout batch_layout(const GemmBatch& batch);

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

}  // namespace deepgemm::plan
