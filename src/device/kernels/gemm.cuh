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
// K past the end is zero-filled by TMA and adds nothing; k >= 1 is the host's promise. Rows of A
// and columns of B that are not there are not loaded.
#pragma once

#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "pipeline/consumer.cuh"
#include "pipeline/producer.cuh"
#include "scale/scale_warps.cuh"

namespace deepgemm::device {

template <GemmConfig C>
DEEPGEMM_DEVICE void gemm(const GemmParams& p) {
  static_assert(broken_rule(C) == nullptr, "illegal GemmConfig");
  const u32 shared = ptx::dynamic_shared();
  const int warp = ptx::warp_index();
  if (ptx::thread_index() == 0) {
    ptx::prefetch_tensor_map(p.a);
    ptx::prefetch_tensor_map(p.b);
    if constexpr (C.scaled() && C.scales_by_tma) ptx::prefetch_tensor_map(p.sfa);
    if constexpr (C.scales_by_tma && C.column_scales) ptx::prefetch_tensor_map(p.sfb);
    if constexpr (C.epilogue != Epilogue::general) ptx::prefetch_tensor_map(p.out);
    if constexpr (C.epilogue == Epilogue::accumulate) ptx::prefetch_tensor_map(p.c);
    GemmRing<C>(shared).init(C.full_arrivals(), C.empty_arrivals());
    if constexpr (C.grouped()) TileRing<C>(shared).init(1, 2 + C.factor_warps());
  }
  if (ptx::thread_index() == 32) {  // beside the first warp's work
    constexpr u32 tile_m = C.tile_m, tile_n = C.tile_n;
    if (C.a_has_edge() && static_cast<u32>(p.m) % tile_m != 0) ptx::prefetch_tensor_map(p.a_edge);
    if (C.b_has_edge() && static_cast<u32>(p.n) % tile_n != 0) ptx::prefetch_tensor_map(p.b_edge);
  }
  if constexpr (C.cluster() > 1) {
    ptx::cluster_sync();
  } else {
    ptx::sync_cta();
  }
  ptx::let_next_kernel_start();
  const bool produces = warp >= C.consumers * warps_per_group;
  const int role = warp % warps_per_group;
  if (!produces || role != 0)
    ptx::wait_for_previous_kernel();  // the operands' producer does itself

  if (produces) {
    ptx::lower_registers<C.producer_registers()>();
    if (role == 0) {
      produce_operands<C>(p, shared);
    } else if (role == 1) {
      produce_headers<C>(p, shared);
    } else if (role - 2 < C.factor_warps()) {
      if constexpr (!C.scales_by_tma) produce_strided_factors<C>(p, shared, role - 2);
    } else if (role == 3) {
      if constexpr (C.grouped()) produce_tiles<C>(p, shared);
    }
  } else {
    ptx::raise_registers<C.consumer_registers()>();
    consume<C>(p, shared);
  }
  // A peer may still multicast into this CTA or arrive at its barriers. Where K is split the
  // barrier is the one that the consumers have met at in sum_over_cluster().
  if constexpr (C.multicast() > 1) {
    ptx::sync_warp();
    ptx::cluster_sync();
  } else if constexpr (C.cluster_k > 1) {
    ptx::sync_warp();
    if (produces) {
      ptx::cluster_arrive();
      ptx::cluster_wait();
    }
  }
}

}  // namespace deepgemm::device
