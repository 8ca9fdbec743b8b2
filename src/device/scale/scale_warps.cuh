// The producer warps that fill scale factors by ordinary loads.
//
// Why beside the ring and not in the consumers: a load by the consumers stands in their issue order
// with a cold latency per K block; a warp of its own runs ahead (K=512: 144 -> 124 us).
#pragma once

#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "pipeline/ring.cuh"
#include "ptx/memory.cuh"
#include "scheduler/raster.cuh"

namespace deepgemm::device {

// Lane i holds the factors of K block `first + i` for the (at most two) column blocks of a tile.
struct ColumnScales {
  float near = 0, far = 0;
};

template <GemmConfig C>
DEEPGEMM_DEVICE ColumnScales load_column_scales(const GemmParams& p, int column, int first,
                                                int k_blocks) {
  ColumnScales scales;
  const int block = column / scale_block_n;
  const int kb = first + ptx::lane_index();
  if (kb >= k_blocks || column >= p.n) return scales;
  const float* address = p.sfb + block * p.sfb_row + kb * p.sfb_k;
  scales.near = ptx::load_global_f32(address);
  if constexpr (C.straddles_scales() || C.tile_n > scale_block_n) {
    if ((block + 1) * scale_block_n < p.n) scales.far = ptx::load_global_f32(address + p.sfb_row);
  }
  return scales;
}

// Run by one warp: the header of every stage. 32 K blocks are loaded at a time, one such chunk
// ahead, across the boundary between tiles.
template <GemmConfig C>
DEEPGEMM_DEVICE void produce_headers(const GemmParams& p, u32 shared) {
  GemmRing<C> ring(shared);
  const int k_blocks = ceil_div(p.k, block_k);
  Raster<C> raster(p);
  if (!raster.valid()) return;
  Tile tile = raster.tile();
  ColumnScales scales = load_column_scales<C>(p, tile.column, 0, k_blocks);
#pragma unroll 1
  while (raster.valid()) {
    const bool more = !raster.last();
    raster.advance();
    const Tile next_tile = more ? raster.tile() : tile;
#pragma unroll 1
    for (int first = 0; first < k_blocks; first += 32) {
      const bool same_tile = first + 32 < k_blocks;
      const ColumnScales next = load_column_scales<C>(p, same_tile ? tile.column : next_tile.column,
                                                      same_tile ? first + 32 : 0, k_blocks);
      const int blocks = min_of(32, k_blocks - first);
#pragma unroll 1
      for (int i = 0; i < blocks; ++i) {
        const float near = ptx::shuffle(scales.near, i), far = ptx::shuffle(scales.far, i);
        ring.acquire();
        if (ptx::lane_index() == 0) {
          const u32 header = ring.header();
          if (first + i == 0) {
            ptx::store_shared_i32x4(header + 16, tile.row, tile.column, k_blocks, more);
          }
          ptx::store_shared_f32x2(header, near, far);
          ptx::mbarrier_arrive(ring.full());
        }
        ring.advance();
      }
      scales = next;
    }
    tile = next_tile;
  }
}

// Run by two warps where TMA cannot take sfa (row-major factors, odd pitches): each lane loads the
// factors of its rows one K block ahead.
template <GemmConfig C>
DEEPGEMM_DEVICE void produce_row_scales(const GemmParams& p, u32 shared, int warp) {
  constexpr int per_lane = ceil_div(static_cast<int>(C.tile_m), 64);
  GemmRing<C> ring(shared);
  const int k_blocks = ceil_div(p.k, block_k);
  const int lane_row = warp * 32 + ptx::lane_index();
#pragma unroll 1
  for (Raster<C> raster(p); raster.valid(); raster.advance()) {
    const int row = raster.tile().row + lane_row;
    const float* address = p.sfa_data + row * p.sfa_row;
    float ahead[per_lane];
#pragma unroll
    for (int i = 0; i < per_lane; ++i) {
      ahead[i] = row + i * 64 < p.m ? ptx::load_global_f32(address + i * 64 * p.sfa_row) : 0.0f;
    }
#pragma unroll 1
    for (int kb = 0; kb < k_blocks; ++kb) {
      ring.acquire();
      address += p.sfa_k;
#pragma unroll
      for (int i = 0; i < per_lane; ++i) {
        if (i * 64 + lane_row < C.tile_m) {
          ptx::store_shared_f32(ring.sfa() + (i * 64 + lane_row) * 4, ahead[i]);
        }
        if (kb + 1 < k_blocks && row + i * 64 < p.m) {
          ahead[i] = ptx::load_global_f32(address + i * 64 * p.sfa_row);
        }
      }
      ptx::sync_warp();
      if (ptx::lane_index() == 0) ptx::mbarrier_arrive(ring.full());
      ring.advance();
    }
  }
}

}  // namespace deepgemm::device
