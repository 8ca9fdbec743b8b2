// The schedule of a config: a raster of all tiles, or the tiles of groups.
#pragma once

#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "scheduler/raster.cuh"
#include "scheduler/tile_queue.cuh"

namespace deepgemm::device {

template <GemmConfig C, bool Grouped>
struct ScheduleOf {
  using Type = Raster<C>;
};
template <GemmConfig C>
struct ScheduleOf<C, true> {
  using Type = TileQueue<C>;
};
template <GemmConfig C>
using TileSchedule = typename ScheduleOf<C, C.grouped()>::Type;

// The CTA's tiles, for one of the producer warps. All lanes call together.
template <GemmConfig C>
DEEPGEMM_DEVICE TileSchedule<C> tiles_of(const GemmParams& p, u32 shared) {
  if constexpr (C.grouped()) {
    return TileQueue<C>(shared);
  } else {
    return Raster<C>(p);
  }
}

// Which matrix of b and sfb, of a and sfa, and of c and out the tile takes.
template <GemmConfig C>
DEEPGEMM_DEVICE i32 matrix_of_b(const GemmParams& p, const Tile& tile) {
  return C.stacked() && p.groups.b_stacked != 0 ? tile.group : 0;
}
template <GemmConfig C>
DEEPGEMM_DEVICE i32 matrix_of_a(const GemmParams& p, const Tile& tile) {
  return C.stacked() && p.groups.a_stacked != 0 ? tile.group : 0;
}
template <GemmConfig C>
DEEPGEMM_DEVICE i32 matrix_of_out(const GemmParams& p, const Tile& tile) {
  return C.stacked() && p.groups.out_stacked != 0 ? tile.group : 0;
}

// The K blocks of a tile; `common` are those of every tile, if groups do not divide K. A group
// without K has one that is not multiplied: its tile is stored all the same.
template <GemmConfig C>
DEEPGEMM_DEVICE KRange range_of(const Tile& tile, const KRange& common) {
  if constexpr (C.k_grouped())
    return {0, max_of(1, ceil_div(tile.end, static_cast<i32>(C.stage_k())))};
  return common;
}

}  // namespace deepgemm::device
