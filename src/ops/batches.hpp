// Batches of products: how many there are, and the first of them as plan and cpu take it.
#pragma once

#include <cstdint>
#include <optional>

#include "deepgemm/gemm.hpp"
#include "plan/gemm_batch.hpp"

namespace deepgemm::ops {

// a or b has rank 3; else there is one product, of rank 2.
inline bool is_batched(const GemmArgs& args) noexcept {
  return args.a.values.rank == 3 || args.b.values.rank == 3;
}
// How many products the batch extents of a and b make.
std::int64_t batch_of(const GemmArgs& args);
// c as [B, M, N]: one matrix for all with a stride of 0, and whatever has another shape as it is.
TensorView batched_addend(const TensorView& c, const GemmProblem& problem);

// The product of the first matrices, with every sf as [rows, k], and the distances to the others.
struct FirstProduct {
  std::optional<GemmArgs> changed;  // nothing where `given` is that product already
  plan::GemmBatch batch;
};
// `problem` = make_problem(given).
FirstProduct first_product(const GemmArgs& given, const GemmProblem& problem);

}  // namespace deepgemm::ops
