// What TMA moves for each kernel: view, box and swizzle of every operand, in one place for the
// legality check and for the descriptor.
#pragma once

#include <optional>
#include <string>

#include "deepgemm/tma.hpp"
#include "device/common/decode_config.cuh"
#include "device/common/gemm_config.cuh"
#include "device/common/gemm_params.cuh"
#include "plan/operands.hpp"

namespace deepgemm::plan {

struct TmaMatrix {
  TensorView view;  // contiguous dimension last
  tma::Tile tile;
  tma::Swizzle swizzle;
  const char* name;  // of the operand, in errors
};

// Of every descriptor.
inline constexpr tma::L2Promotion descriptor_promotion = tma::L2Promotion::b256;

TmaMatrix a_matrix(const RowsByK& a, const device::GemmConfig& config);
TmaMatrix b_matrix(const RowsByK& b, const device::GemmConfig& config);
// The same in boxes of the last tile's rows (columns); if they fill the tile or come otherwise,
// nothing.
std::optional<TmaMatrix> a_edge_matrix(const RowsByK& a, const device::GemmConfig& config);
std::optional<TmaMatrix> b_edge_matrix(const RowsByK& b, const device::GemmConfig& config);
// Factors of an operand's rows as [k blocks, rows].
TmaMatrix factor_matrix(const RowsByK& operand, int box_rows, const char* name);
// out, or c where it moves in the same boxes.
TmaMatrix out_matrix(const TensorView& out, const device::GemmConfig& config, const char* name);
// An operand of the decode kernel as [k blocks, rows, 128 bytes]; K must be a multiple of them.
TmaMatrix decode_matrix(const RowsByK& operand, int box_rows, int box_blocks, const char* name);

// The same of stacks of matrices, one per group: [G, ...], with a distance of `group_stride`
// elements between groups.
TmaMatrix stacked(const TmaMatrix& matrix, std::int64_t groups, std::int64_t group_stride);

std::string broken_rule(const TmaMatrix& matrix);
// Whether TMA moves a stack that begins with `first` (out, or c) in the boxes of out.
bool moves_as_out(const TensorView& first, std::int64_t matrices, std::int64_t apart);
device::TensorMap tensor_map(const TmaMatrix& matrix);

}  // namespace deepgemm::plan
