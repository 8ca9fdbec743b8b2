// Products of many groups in one call: what the experts of an MoE layer compute, forward
// (grouped_gemm, masked_gemm) and backward (k_grouped_gemm). Group vectors are on the device of
// the other arrays, int32 or int64, and are not waited for: in host memory their values are checked
// before anything is computed, on a GPU nothing outside the arrays is read or written, whatever
// they hold. The setting DEEPGEMM_CHECK_GROUPS (docs/settings.md) has them checked on a GPU too,
// which waits for the stream.
#pragma once

#include <cstdint>
#include <optional>

#include "deepgemm/gemm.hpp"
#include "deepgemm/problem.hpp"
#include "deepgemm/scaling.hpp"
#include "deepgemm/tensor.hpp"

namespace deepgemm {

// What grouped_gemm and masked_gemm have in common: each row of a is multiplied with the matrix of
// its group, and rows of no group are not written and never reach a result. Of group g:
//   out = activation(alpha * A_g @ B_g + bias[g]) + c
// Strides are as the caller says, but the groups are the outermost dimension in memory.
struct RowGroupArgs {
  ScaledView a;
  // [G, N, K] (layout nt) or [G, K, N] (nn); sf one matrix per group, [G, N blocks, K blocks] or
  // turned as the values are, or one element for all.
  ScaledView b;
  TensorView out;                  // bfloat16, float16 or float32; overlaps nothing but c
  std::optional<TensorView> c;     // the shape of out, its dtype or float32; may be out itself
  std::optional<TensorView> bias;  // [G, N], float32, bfloat16 or float16
  Activation activation = Activation::none;
  float alpha = 1.0F;
  Layout layout = Layout::nt;  // nt or nn
};

// Rows of all groups lie in one matrix: a [M, K], out and c [M, N].
// sf of a is [M, K blocks], (1, k) per row, or one element: no block of factors spans groups.
struct GroupedArgs : RowGroupArgs {
  // Whose rows are whose, in one of four forms. M and the extents are at least as large as they
  // say.
  //   sizes    [G]      group g has the next groups[g] rows
  //   offsets  [G + 1]  group g has rows groups[g] to groups[g + 1]; none of them decreases
  //   ends     [G]      group g has the rows before groups[g], from the end of the group before
  //                     rounded up to `alignment` (group 0: from 0). An end between the two is an
  //                     empty group; none decreases
  //   labels   [M]      row m belongs to group groups[m], in any order; -1: to none
  TensorView groups;
  GroupForm form = GroupForm::sizes;
  std::int64_t alignment = 1;  // of `ends`
};

// Each group has a matrix of Mmax rows of which the first rows[g] count: a [G, Mmax, K], out and c
// [G, Mmax, N]. sf of a is as that of b, with Mmax rows.
struct MaskedArgs : RowGroupArgs {
  TensorView rows;                            // [G], 0 to Mmax
  std::optional<std::int64_t> expected_rows;  // per group; changes speed only
};

// out[g] = alpha * A_g @ B_g + c[g], over group g's slice of K: gradients of the experts' weights.
//   a, b     [M, K], [N, K], or turned as `layout` says; group g has the next k_sizes[g] of K, and
//            what follows the last group is not used. A group without K gives 0, or c[g].
//   sf       of a: [M, S] (turned if a is), float32 or float8_e8m0fnu; each factor covers one row
//            and 128 of K. Blocks are counted per group: the first of group g comes after the
//            ceil(k_sizes[h] / 128) of each group h before it, and its last one may cover less than
//            128. S may be larger than their sum. The same of b. This is what quantising each
//            group's slice by itself gives, side by side.
//   out      [G, M, N] float32 or bfloat16
//   c        the shape of out, its dtype or float32; may be out itself
//   k_sizes  [G]; multiples of 16 if a or b is float8
struct KGroupedArgs {
  ScaledView a;
  ScaledView b;
  TensorView out;
  TensorView k_sizes;
  std::optional<TensorView> c;
  float alpha = 1.0F;
  Layout layout = Layout::nt;
};

// Each runs on the CPU reference backend for CPU tensors, else on the tensors' CUDA device,
// asynchronously on options.stream; nothing is read back, so that a CUDA graph can hold the call.
// There, the persistent kernel computes what it can take (E4M3, bfloat16, float16), the general one
// the rest; a policy may name the kernel, its tile and num_sms. Throws ValueError, TypeError or
// Error before anything is computed.
DEEPGEMM_API void grouped_gemm(const GroupedArgs& args, const CallOptions& options = {});
DEEPGEMM_API void masked_gemm(const MaskedArgs& args, const CallOptions& options = {});
DEEPGEMM_API void k_grouped_gemm(const KGroupedArgs& args, const CallOptions& options = {});
// What the call would compute: every check but those of the values in the group vector.
DEEPGEMM_API GroupedProblem make_problem(const GroupedArgs& args);
DEEPGEMM_API GroupedProblem make_problem(const MaskedArgs& args);
DEEPGEMM_API GroupedProblem make_problem(const KGroupedArgs& args);

}  // namespace deepgemm
