// The producer warp that fills everything that TMA brings.
#pragma once

#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "pipeline/ring.cuh"
#include "ptx/tma.cuh"
#include "scheduler/raster.cuh"

namespace deepgemm::device {

// Loads rows of an operand's tile; where the other CTA of the cluster shares the tile, each loads
// half and sends it to both.
template <int Rows, bool Shared>
DEEPGEMM_DEVICE void load_operand(u32 destination, const TensorMap& map, int k, int row, int rank,
                                  u32 barrier) {
  if constexpr (Shared) {
    constexpr int half = Rows / 2;
    constexpr u16 both = 3;
    ptx::tma_load_2d_multicast(destination + rank * half * block_k, map, k, row + rank * half,
                               barrier, both);
  } else {
    ptx::tma_load_2d(destination, map, k, row, barrier);
  }
}

template <GemmConfig C>
DEEPGEMM_DEVICE void load_stage(const GemmParams& p, const GemmRing<C>& ring, const Tile& tile,
                                int kb, int rank) {
  const u32 full = ring.full();
  ptx::mbarrier_arm(full, C.stage_transaction_bytes());
  load_operand<C.tile_m, (C.cluster_n > 1)>(ring.a(), p.a, kb * block_k, tile.row, rank, full);
  load_operand<C.tile_n, (C.cluster_m > 1)>(ring.b(), p.b, kb * block_k, tile.column, rank, full);
  if constexpr (C.scales_by_tma) {
    ptx::tma_load_2d(ring.sfa(), p.sfa, tile.row, kb, full);
    if constexpr (C.column_scales) ptx::tma_load_2d(ring.sfb(), p.sfb, tile.column, kb, full);
  }
}

// Run by one warp. Why the whole warp loops and one lane issues: the loop then stays uniform.
template <GemmConfig C>
DEEPGEMM_DEVICE void produce_operands(const GemmParams& p, u32 shared) {
  GemmRing<C> ring(shared);
  const bool issues = ptx::elect_one();
  const KRange range = k_range<C>(p);
#pragma unroll 1
  for (Raster<C> raster(p); raster.valid(); raster.advance()) {
    const Tile tile = raster.tile();
#pragma unroll 1
    for (int i = 0; i < range.count; ++i) {
      ring.acquire();
      if (issues) load_stage<C>(p, ring, tile, range.first + i, raster.rank);
      ring.advance();
    }
  }
}

}  // namespace deepgemm::device
