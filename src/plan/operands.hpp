// GemmArgs as the kernels see them: both operands as rows x k, strides in place of layouts.
#pragma once

#include <cstdint>
#include <limits>

#include "deepgemm/gemm.hpp"
#include "device/common/elements.cuh"
#include "device/common/gemm_params.cuh"

namespace deepgemm::plan {

// Rows, columns and groups count in 32 bits on the device, and so do the starts of tiles past the
// last one.
inline constexpr std::int64_t most_extent = std::numeric_limits<std::int32_t>::max() - 1024;

// One operand as [rows, k]; strides of dimensions with one element are 0.
struct RowsByK {
  const TensorView* values = nullptr;
  const TensorView* sf = nullptr;  // null: unscaled
  std::int64_t rows = 0, k = 0;
  std::int64_t row_stride = 0, k_stride = 0;
  std::int64_t sf_row_stride = 0, sf_k_stride = 0;
  std::int64_t rows_per_scale = 1, k_per_scale = 1;

  // Whether the factors are one for each `rows_each` x `k_each` elements, or cannot be told apart
  // from that in an operand of this size.
  bool scaled_by(std::int64_t rows_each, std::int64_t k_each) const;
};

RowsByK operand_a(const GemmArgs& args, const GemmProblem& problem);
RowsByK operand_b(const GemmArgs& args, const GemmProblem& problem);
RowsByK operand_of(const ScaledView& x, const Granularity& granularity);

// The kernels' name of a dtype; throws TypeError for those that no kernel reads.
device::ElementType element_type(DType dtype);

device::OperandParams operand_params(const RowsByK& operand);
device::EpilogueParams epilogue_params(const GemmArgs& args);
// The numbers among them, which may be others in each call.
void set_scalars(device::EpilogueParams& epilogue, float alpha, float out_scale, bool c_is_scaled);
bool has_scaled_c(const GemmArgs& args);
device::GeneralGemmParams general_params(const GemmProblem& problem, const GemmArgs& args);
// Whether a sum needs more than a cast before it is stored.
bool needs_epilogue(const GemmArgs& args);
// out = A B + c with a c of out's dtype, 16 or 32 bits, and nothing else; c may be out.
bool only_accumulates(const GemmArgs& args);

}  // namespace deepgemm::plan
