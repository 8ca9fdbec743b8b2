// The producer warps that fill scale factors by ordinary loads.
//
// Why beside the ring and not in the consumers: a load by the consumers stands in their issue order
// with a cold latency per K block; a warp of its own runs ahead (K=512: 144 -> 124 us).
#pragma once

#include "common/float_formats.cuh"
#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "pipeline/ring.cuh"
#include "ptx/memory.cuh"
#include "scheduler/schedule.cuh"

namespace deepgemm::device {

// Lane i holds the factors of K block `first + i` for the (at most two) column blocks of a tile.
struct ColumnScales {
  float near = 0, far = 0;
};

template <GemmConfig C>
DEEPGEMM_DEVICE ColumnScales load_column_scales(const GemmParams& p, int column, int group,
                                                int first, const KRange& range) {
  ColumnScales scales;
  const int block = column / scale_block_n;
  const int i = first + ptx::lane_index();
  if (!C.scaled() || C.column_scales || i >= range.count || column >= p.n) return scales;
  const int kb = range.first + i;
  const float* address = p.sfb_data + block * p.sfb_row + kb * p.sfb_k;
  if constexpr (C.grouped()) address += group * p.groups.sfb;
  scales.near = ptx::load_global_f32(address);
  if constexpr (C.straddles_scales() || C.tile_n > scale_block_n) {
    if ((block + 1) * scale_block_n < p.n) scales.far = ptx::load_global_f32(address + p.sfb_row);
  }
  return scales;
}

// A stage that has no header: one of C.
template <GemmConfig C>
DEEPGEMM_DEVICE void pass_header(GemmRing<C>& ring) {
  ring.acquire();
  if (ptx::lane_index() == 0) ptx::mbarrier_arrive(ring.full());
  ring.advance();
}

// The header of a CTA without a tile.
template <GemmConfig C>
DEEPGEMM_DEVICE void send_no_tile(const GemmRing<C>& ring) {
  if (ptx::lane_index() == 0) {
    ptx::store_shared_i32x4(ring.header() + 16, 0, 0, 0, 0);  // k_blocks = 0
    ptx::mbarrier_arrive(ring.full());
  }
}

// Run by one warp: the header of every stage. 32 K blocks are loaded at a time, one such chunk
// ahead, across the boundary between tiles.
template <GemmConfig C>
DEEPGEMM_DEVICE void produce_headers(const GemmParams& p, u32 shared) {
  GemmRing<C> ring(shared);
  const KRange common = k_range<C>(p);
  TileSchedule<C> raster = tiles_of<C>(p, shared);
  if (!raster.valid()) {
    if constexpr (C.grouped()) send_no_tile<C>(ring);
    return;
  }
  Tile tile = raster.tile();
  ColumnScales scales = load_column_scales<C>(p, tile.column, tile.group, 0, common);
#pragma unroll 1
  while (raster.valid()) {
    const bool more = !raster.last();
    raster.advance();
    const Tile next_tile = more ? raster.tile() : tile;
    const KRange range = range_of<C>(tile, common);
#pragma unroll 1
    for (int first = 0; first < range.count; first += 32) {
      const bool same_tile = first + 32 < range.count;
      // Fields are chosen by value: a choice between two tiles would put both on the stack.
      const int column = same_tile ? tile.column : next_tile.column;
      const int group = same_tile ? tile.group : next_tile.group;
      const ColumnScales next =
          load_column_scales<C>(p, column, group, same_tile ? first + 32 : 0, common);
      const int blocks = min_of(32, range.count - first);
#pragma unroll 1
      for (int i = 0; i < blocks; ++i) {
        const float near = ptx::shuffle(scales.near, i), far = ptx::shuffle(scales.far, i);
        ring.acquire();
        if (ptx::lane_index() == 0) {
          const u32 header = ring.header();
          if (first + i == 0) {
            const i32 before = C.k_grouped()     ? tile.first
                               : C.row_grouped() ? tile.first - tile.row
                                                 : 0;
            ptx::store_shared_i32x4(header + 16, tile.row, tile.column, range.count,
                                    before * 2 + more);
          }
          if constexpr (C.stacked()) {
            ptx::store_shared_i32x4(header, static_cast<i32>(float_bits(near)),
                                    static_cast<i32>(float_bits(far)), tile.group, tile.end);
          } else {
            ptx::store_shared_f32x2(header, near, far);
          }
          ptx::mbarrier_arrive(ring.full());
        }
        ring.advance();
      }
      scales = next;
    }
#pragma unroll 1
    for (int i = 0; takes_c<C>() && i < C.c_blocks(); ++i) pass_header<C>(ring);
    tile = next_tile;
  }
}

// A line of factors, one per row of an operand's tile, as one of so many threads loads it: every
// so manyth of them, one K block ahead.
template <int Lines, int Threads>
struct StridedFactors {
  static constexpr int per_lane = ceil_div(Lines, Threads);
  const float* address = nullptr;
  i64 row_step = 0, k_step = 0;
  int rows_left = 0;  // of the operand, from this lane's first row
  int lane_row = 0;
  float ahead[per_lane];

  DEEPGEMM_DEVICE void start(const float* data, i64 row_stride, i64 k_stride, int row, int rows,
                             int thread) {
    lane_row = thread;
    rows_left = rows - row - thread;
    address = data + (row + thread) * row_stride;
    row_step = Threads * row_stride;
    k_step = k_stride;
    load();
  }
  DEEPGEMM_DEVICE void load() {
#pragma unroll
    for (int i = 0; i < per_lane; ++i) {
      ahead[i] = i * Threads < rows_left ? ptx::load_global_f32(address + i * row_step) : 0.0f;
    }
    address += k_step;
  }
  DEEPGEMM_DEVICE void store(u32 line) const {
#pragma unroll
    for (int i = 0; i < per_lane; ++i) {
      if (i * Threads + lane_row < Lines)
        ptx::store_shared_f32(line + (i * Threads + lane_row) * 4, ahead[i]);
    }
  }
};

// Run by factor_warps() warps where TMA cannot take the factors (row-major, odd pitches).
template <GemmConfig C>
DEEPGEMM_DEVICE void produce_strided_factors(const GemmParams& p, u32 shared, int warp) {
  GemmRing<C> ring(shared);
  const KRange common = k_range<C>(p);
  constexpr int threads = C.factor_warps() * 32;
  const int thread = warp * 32 + ptx::lane_index();
  TileSchedule<C> raster = tiles_of<C>(p, shared);
  if (C.grouped() && !raster.valid() && ptx::lane_index() == 0) ptx::mbarrier_arrive(ring.full());
#pragma unroll 1
  for (; raster.valid(); raster.advance()) {
    const Tile tile = raster.tile();
    const KRange range = range_of<C>(tile, common);
    const float* sfa = p.sfa_data + (tile.block + range.first) * p.sfa_k;
    const float* sfb = p.sfb_data + (tile.block + range.first) * p.sfb_k;
    if constexpr (C.grouped()) {
      sfa += matrix_of_a<C>(p, tile) * p.groups.sfa;
      sfb += matrix_of_b<C>(p, tile) * p.groups.sfb;
    }
    StridedFactors<C.tile_m, threads> rows;
    StridedFactors<C.tile_n, threads> columns;
    // A group without K has no factors, nor has one to which a vector that lies gives more blocks
    // than there are: none is read, as if no row were left.
    const bool none =
        C.k_grouped() && (tile.end == 0 || tile.block + range.count > p.groups.blocks);
    rows.start(sfa, p.sfa_row, p.sfa_k, tile.row, none ? 0 : p.m, thread);
    if constexpr (C.column_scales) {
      columns.start(sfb, p.sfb_row, p.sfb_k, tile.column, none ? 0 : p.n, thread);
    }
#pragma unroll 1
    for (int i = 0; i < range.count; ++i) {
      ring.acquire();
      rows.store(ring.sfa());
      if (i + 1 < range.count) rows.load();
      if constexpr (C.column_scales) {
        columns.store(ring.sfb());
        if (i + 1 < range.count) columns.load();
      }
      ptx::sync_warp();
      if (ptx::lane_index() == 0) ptx::mbarrier_arrive(ring.full());
      ring.advance();
    }
  }
}

}  // namespace deepgemm::device
