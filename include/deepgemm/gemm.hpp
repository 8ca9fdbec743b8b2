// One-call form of the dense product.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "deepgemm/problem.hpp"
#include "deepgemm/tensor.hpp"

// Opaque CUDA stream, so that no CUDA header is needed to include this one.
struct CUstream_st;

namespace deepgemm {

using Stream = CUstream_st*;

// out = activation(alpha * A @ B + bias) + c
//   a, b   [M, K], [N, K] as `layout` names them. Both scaled or unscaled in any mix; the factors
//          lie as the values do (see ScaledView).
//   out    [M, N] bfloat16, float16, float32 or float8 (then divided by out_scale and saturated).
//          Its strides are honoured; zero or overlapping strides are refused. Not overlapping
//          a, b, bias; c may be out itself.
//   c      [M, N] of out's dtype or float32. A float8 c counts c * out_scale: what a float8 out
//          of the same out_scale stands for.
//   bias   [N], float32, bfloat16 or float16.
// A batch of B products, if a or b has rank 3 (B first, the rest as above):
//   a, b   B matrices, or one for all: of rank 2, a batch extent of 1, or a batch stride of 0. The
//          factors of rank 3 values are [B, ...], or one matrix of them, or one factor, for all.
//   out    [B, M, N]; the batch is its outermost dimension in memory.
//   c      [B, M, N], out itself or apart from it; or one matrix for all, as a and b.
//   bias   [N], for all.
struct GemmArgs {
  ScaledView a;
  ScaledView b;
  TensorView out;
  std::optional<TensorView> c;
  std::optional<TensorView> bias;
  Activation activation = Activation::none;
  float alpha = 1.0F;
  float out_scale = 1.0F;
  Layout layout = Layout::nt;
};

// Which kernel of a GPU computes a product, and how. Fields left unset are chosen by the
// heuristics; an illegal choice is a ValueError that names the field or the rule. tile_m, tile_n,
// consumers_n, cluster_m, cluster_n, group, raster_along_n and ordered ask for the persistent
// kernel; stage_blocks and ctas_per_sm for decode; consumers, stages and cluster_k for either.
// Where it cannot take the problem, that is a ValueError too. Arrays in host memory are computed as
// if there were no policy.
struct Policy {
  std::optional<std::string> kernel;  // "persistent", "decode" or "general"
  std::optional<int> tile_m, tile_n, stages, cluster_m, cluster_n, consumers, consumers_n, group,
      stage_blocks, cluster_k, ctas_per_sm, num_sms;
  std::optional<bool> raster_along_n, ordered;
};

struct CallOptions {
  Stream stream = nullptr;
  const Policy* policy = nullptr;
  // SMs that a kernel may occupy; 0: all of the device. With Policy::num_sms, the smaller counts.
  // The persistent, quantise, dequantise and scale layout kernels and grouped products launch no
  // more CTAs, and the decode kernel is not chosen if it would. The general kernel of dense
  // products (see explain) has one CTA for each 64 x 64 of out, whatever this says.
  int num_sms = 0;
  bool pdl = false;  // programmatic dependent launch
  // b is written by nothing that the stream still has before this call (weights): under pdl its
  // first tiles are loaded before the previous kernel is complete.
  bool constant_b = false;
  bool accumulate_in_f64 = false;  // CPU backend only: FP64 sums, for tests
};

// Runs on the CPU reference backend for CPU tensors, else on the tensors' CUDA device,
// asynchronously on options.stream. Throws ValueError, TypeError or Error before anything is
// launched.
DEEPGEMM_API void gemm(const GemmArgs& args, const CallOptions& options = {});
// What gemm() would compute, with every check made and every granularity resolved.
DEEPGEMM_API GemmProblem make_problem(const GemmArgs& args);

}  // namespace deepgemm
