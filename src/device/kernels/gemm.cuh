// D[M, N] = (A sfa) (B sfb)^T for FP8 operands, A B^T for 16-bit ones, on SM90: persistent,
// warp-specialised.
//
// clang-format off
// | warpgroup      | warp | does                              | waits on | arrives at           |
// |----------------|------|-----------------------------------|----------|----------------------|
// | 0..consumers-1 | all  | WGMMA, promotion, epilogue        | full     | empty of each writer |
// | consumers      | 0    | TMA of A, B and factors, then C   | empty    | full, with bytes     |
// |                | 1    | headers: factors of B, the tile   | empty    | full                 |
// |                | 2, 3 | factors that TMA cannot take      | empty    | full                 |
// |                | 3    | with groups: the CTA's tiles      | tile_empty | tile_full          |
// clang-format on
//
// The operands' producer makes the barriers and starts; all others wait for it at `start_barrier`.
// Where K is split, CTA 0's `sent` counts the other CTAs' sums, which they send once it runs.
//
// K past the end is zero-filled by TMA and adds nothing; k >= 1 is the host's promise. Rows of A
// and columns of B that are not there are not loaded.
#pragma once

#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "pipeline/consumer.cuh"
#include "pipeline/producer.cuh"
#include "scale/scale_warps.cuh"

namespace deepgemm::device {

// Those that are not needed at once; the operands' producer fetches its own.
template <GemmConfig C>
DEEPGEMM_DEVICE void prefetch_maps(const GemmParams& p) {
  if constexpr (C.epilogue != Epilogue::general) ptx::prefetch_tensor_map(p.out);
  if constexpr (C.epilogue == Epilogue::accumulate) ptx::prefetch_tensor_map(p.c);
}

template <GemmConfig C>
DEEPGEMM_DEVICE void gemm(const GemmParams& p) {
  static_assert(broken_rule(C) == nullptr, "illegal GemmConfig");
  const u32 shared = ptx::dynamic_shared();
  const int warp = ptx::warp_index();
  const bool produces = warp >= C.consumers * warps_per_group;
  const int role = warp % warps_per_group;
  if (produces) ptx::lower_registers<C.producer_registers()>();
  if (produces && role == 0) {
    produce_operands<C>(p, shared);
  } else {
    if (warp == 0) {
      if (ptx::lane_index() == 0) prefetch_maps<C>(p);
      if (C.cluster_k > 1 && ptx::cluster_rank() == 0) expect_sums<C>(shared);
    }
    if constexpr (C.multicast() > 1) {
      ptx::cluster_sync();
    } else {
      if constexpr (C.cluster_k > 1) ptx::cluster_arrive_relaxed();
      ptx::named_barrier_sync(start_barrier, C.threads());
    }
    ptx::let_next_kernel_start();
    ptx::wait_for_previous_kernel();
    if (!produces) {
      ptx::raise_registers<C.consumer_registers()>();
      consume<C>(p, shared);
    } else if (role == 1) {
      produce_headers<C>(p, shared);
    } else if (role - 2 < C.factor_warps()) {
      if constexpr (!C.scales_by_tma) produce_strided_factors<C>(p, shared, role - 2);
    } else if (role == 3) {
      if constexpr (C.grouped()) produce_tiles<C>(p, shared);
    }
  }
  // A peer may still multicast into this CTA or arrive at its barriers. Where K is split a CTA has
  // waited for all that comes.
  if constexpr (C.multicast() > 1) {
    ptx::sync_warp();
    ptx::cluster_sync();
  } else if constexpr (C.cluster_k > 1) {
    ptx::sync_warp();
    if (produces) ptx::cluster_wait();  // at which it arrived when it started
  }
}

}  // namespace deepgemm::device
