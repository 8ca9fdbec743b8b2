// The one parameter of the persistent kernel, passed by value. Same layout on host and device.
#pragma once

#include "common/divisor.cuh"
#include "common/group_vector.cuh"
#include "common/l2_policy.cuh"
#include "common/simple_configs.cuh"
#include "common/types.cuh"

namespace deepgemm::device {

// The bytes of a CUtensorMap.
struct alignas(64) TensorMap {
  u64 opaque[16];
};

enum class ActivationType : i32 { none, relu, gelu, gelu_tanh, silu };

// out[m, n] = activation(alpha * sum + bias[n]) + c[m, n]; used by the general epilogue only.
struct EpilogueParams {
  const void* bias;                // [n], or null
  const void* c;                   // [m, n], or null; may be out itself
  i64 bias_step, c_row, c_column;  // strides in elements
  float alpha;
  float c_scale;  // of a float8 c: out_scale
  float inverse_out_scale;
  ActivationType activation;
  i32 bias_type, c_type, out_type;  // ElementType
};

// Of a grouped schedule, or of a batch; strides in elements from one group to the next. Operands
// that are stacked have one matrix per group, and so have their factors and, with out, c; others
// have one for all.
struct GroupParams {
  GroupVector vector;
  i64 sfa, sfb, out, bias, c;
  i32 a_stacked, b_stacked, out_stacked;
  i32 blocks;  // of factors, if groups divide K
};

// The order in which the dense schedule's tiles are taken (scheduler/raster.cuh).
struct RasterParams {
  i32 group;    // tiles side by side before the other dimension advances
  i32 along_n;  // the group lies along N instead of M
  // Of a tile's number: the matrix, the group in it, and in that the tile; the last group is
  // narrower.
  Divisor matrix, band, column, last_column;
};

struct GemmParams {
  TensorMap a, b, sfa, sfb, c, out;  // sfb with column_scales, c with Epilogue::accumulate only
  TensorMap a_edge, b_edge;          // in boxes of the last tile's rows, columns, if it has fewer
  const float* sfa_data;             // read where scales_by_tma is off; strides in elements
  i64 sfa_row, sfa_k;
  const float* sfb_data;  // read without column_scales, or where scales_by_tma is off
  i64 sfb_row, sfb_k;
  void* out_data;  // written where TMA does not store; strides in elements
  i64 out_row, out_column;
  EpilogueParams epilogue;
  GroupParams groups;
  L2Policy a_policy = L2Policy::evict_normal, b_policy = L2Policy::evict_normal;
  i32 m, n, k;
  RasterParams raster;
  i32 constant_b;  // B may be read before the previous kernel is complete
  i32 batch;       // products of the dense schedule, where operands are stacks
};

// An operand of the general kernel, read as rows x k whatever its memory looks like.
struct OperandParams {
  const void* data;
  const void* sf;    // null: every factor is 1
  i64 row, k;        // strides in elements
  i64 sf_row, sf_k;  // likewise
  i64 rows_per_scale, k_per_scale;
  i32 type, sf_type;  // ElementType
};

struct GeneralGemmParams {
  OperandParams a, b;
  void* out;
  i64 out_row, out_column;
  i64 m, n, k;
  EpilogueParams epilogue;
};

// Of group g: `product` with pointers that lie g strides further on. A stride is 0 where the groups
// share one matrix.
struct GeneralGroupedParams {
  GeneralGemmParams product;  // m and k: all rows of a (or of each of its matrices), all of K
  GroupVector groups;
  i64 a_group, sfa_group, b_group, sfb_group, out_group, c_group, bias_group;  // in elements
  // Groups along K: blocks of factors that there are; what of K lies past them is not read.
  i64 scale_blocks;
};

// Quantise and dequantise: x or out, the values and their factors, as rows x k.
struct QuantizeParams {
  void* wide;  // x of quantise, out of dequantise
  i64 wide_row, wide_k;
  void* values;
  i64 values_row, values_k;
  void* sf;
  i64 sf_row, sf_k;
  i64 rows, k;
  i64 rows_per_scale, k_per_scale;
  i64 blocks, blocks_k;  // scale blocks in all, and along K
  float amax_floor;
  i32 power_of_two;
  i32 wide_type, values_type, sf_type;
};

// Scale layouts: stacks of matrices of 4-byte words, rows x columns, and their strides in words.
struct ScaleLayoutParams {
  const void* in;
  void* out;
  i64 in_matrix, in_row, in_column;
  i64 out_matrix, out_row, out_column;
  i64 rows, in_columns, out_columns;
  i64 tiles, tiles_down, tiles_across;  // in all; along the rows and the factors of one matrix
  GroupVector vector;                   // ends of rows, or sizes of K; without groups: none
  i32 k_per_scale;
  i32 in_by_rows, out_by_rows;  // whether rows, and not columns, are neighbours in memory
  ScaleWork work;
};

}  // namespace deepgemm::device
