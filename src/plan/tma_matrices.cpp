#include "plan/tma_matrices.hpp"

#include "core/math.hpp"

namespace deepgemm::plan {
namespace {

using device::GemmConfig;

TensorView matrix(const TensorView& like, std::int64_t rows, std::int64_t columns,
                  std::int64_t row_stride) {
  TensorView view = like;
  view.rank = 2;
  view.shape = {rows, columns};
  view.strides = {row_stride, 1};
  return view;
}

// Boxes of `rows` rows of an operand, and as much of K as a stage holds.
TmaMatrix operand_matrix(const RowsByK& x, bool mn_major, int rows, int k, const char* name) {
  constexpr tma::Swizzle swizzle = tma::Swizzle::b128;
  if (mn_major) return {matrix(*x.values, x.k, x.rows, x.k_stride), {k, rows}, swizzle, name};
  return {matrix(*x.values, x.rows, x.k, x.row_stride), {rows, k}, swizzle, name};
}

}  // namespace

TmaMatrix a_matrix(const RowsByK& a, const GemmConfig& c) {
  return operand_matrix(a, c.a_mn_major, c.a_box_rows(), c.stage_k(), "a");
}
TmaMatrix b_matrix(const RowsByK& b, const GemmConfig& c) {
  return operand_matrix(b, c.b_mn_major, c.b_box_columns(), c.stage_k(), "b");
}
std::optional<TmaMatrix> a_edge_matrix(const RowsByK& a, const GemmConfig& c) {
  const int rows = c.a_edge_rows(a.rows);
  if (rows == 0) return std::nullopt;
  return operand_matrix(a, false, rows, c.stage_k(), "a, last rows");
}
std::optional<TmaMatrix> b_edge_matrix(const RowsByK& b, const GemmConfig& c) {
  const int columns = c.b_edge_columns(b.rows);
  if (columns == 0) return std::nullopt;
  return operand_matrix(b, false, columns, c.stage_k(), "b, last columns");
}
TmaMatrix factor_matrix(const RowsByK& operand, int box_rows, const char* name) {
  const std::int64_t blocks = ceil_div(operand.k, device::block_k);
  return {matrix(*operand.sf, blocks, operand.rows, operand.sf_k_stride),
          {1, box_rows},
          tma::Swizzle::none,
          name};
}
TmaMatrix out_matrix(const TensorView& out, const GemmConfig& c, const char* name) {
  const std::int64_t row_stride = out.shape[0] == 1 ? 0 : out.strides[0];
  const int span = c.chunk_span();
  return {matrix(out, out.shape[0], out.shape[1], row_stride),
          {device::unit_rows, c.chunk_columns()},
          span == 128  ? tma::Swizzle::b128
          : span == 64 ? tma::Swizzle::b64
                       : tma::Swizzle::b32,
          name};
}

TmaMatrix stacked(const TmaMatrix& m, std::int64_t groups, std::int64_t group_stride) {
  TmaMatrix stack = m;
  stack.view.rank = 3;
  stack.view.shape = {groups, m.view.shape[0], m.view.shape[1]};
  stack.view.strides = {groups == 1 ? 0 : group_stride, m.view.strides[0], m.view.strides[1]};
  stack.tile = {1, m.tile[0], m.tile[1]};
  return stack;
}

std::string broken_rule(const TmaMatrix& m) { return tma::broken_rule(m.view, m.tile, m.swizzle); }

bool moves_as_out(const TensorView& first, std::int64_t matrices, std::int64_t apart) {
  GemmConfig config;
  config.out_type = element_type(first.dtype);
  return broken_rule(stacked(out_matrix(first, config, "out"), matrices, apart)).empty();
}

TmaMatrix decode_matrix(const RowsByK& operand, int box_rows, int box_blocks, const char* name) {
  TensorView view = *operand.values;
  const std::int64_t block = device::stage_span / size_in_bytes(view.dtype);
  view.rank = 3;
  view.shape = {operand.k / block, operand.rows, block};
  view.strides = {block, operand.row_stride, 1};
  return {view, {box_blocks, box_rows, block}, tma::Swizzle::b128, name};
}

device::TensorMap tensor_map(const TmaMatrix& m) {
  const tma::Descriptor descriptor =
      tma::make_descriptor(m.view, m.tile, m.swizzle, descriptor_promotion, m.name);
  return __builtin_bit_cast(device::TensorMap, descriptor);
}

}  // namespace deepgemm::plan
