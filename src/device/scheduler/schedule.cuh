// The schedule of a config: a raster of all tiles, or a walk over groups.
#pragma once

#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "ptx/thread.cuh"
#include "scheduler/grouped.cuh"
#include "scheduler/k_grouped.cuh"
#include "scheduler/lanes.cuh"
#include "scheduler/raster.cuh"

namespace deepgemm::device {

DEEPGEMM_DEVICE Tile place_of(const GroupTile& tile) {
  return {tile.row, tile.column, tile.group, tile.first, tile.end};
}
DEEPGEMM_DEVICE Tile place_of(const KGroupTile& tile, i32 k_align) {
  const i32 start = aligned_down(tile.k, k_align);
  const bool none = tile.k_end <= tile.k;
  return {
      tile.row, tile.column, tile.group, none ? 0 : tile.k - start, none ? 0 : tile.k_end - start,
      start,    tile.block};
}

// A walk with the interface of a raster, one tile behind it, so that last() costs nothing. All
// lanes of a warp walk together.
template <GemmConfig C, class Walk>
struct GroupedRaster {
  Walk walk;
  Tile now;
  bool found;
  static constexpr i32 rank = 0;

  DEEPGEMM_DEVICE explicit GroupedRaster(const GemmParams& p) : walk(start(p)) { advance(); }

  DEEPGEMM_DEVICE static Walk start(const GemmParams& p) {
    const GroupTiling tiling = {C.tile_m, C.tile_n, ceil_div(p.n, static_cast<i32>(C.tile_n)),
                                p.raster_group, C.row_align()};
    if constexpr (C.k_grouped()) {
      return Walk(p.groups.vector, tiling, ceil_div(p.m, static_cast<i32>(C.tile_m)),
                  ptx::cta_index(), ptx::cta_count());
    } else {
      return Walk(p.groups.vector, tiling, ptx::cta_index(), ptx::cta_count());
    }
  }

  DEEPGEMM_DEVICE bool valid() const { return found; }
  DEEPGEMM_DEVICE bool last() const { return !walk.valid(); }
  DEEPGEMM_DEVICE Tile tile() const { return now; }
  DEEPGEMM_DEVICE void advance() {
    found = walk.valid();
    if (!found) return;
    if constexpr (C.k_grouped()) {
      now = place_of(walk.tile(), C.k_align());
    } else {
      now = place_of(walk.tile());
    }
    walk.advance();
  }
};

template <GemmConfig C, Schedule>
struct ScheduleOf {
  using Type = Raster<C>;
};
template <GemmConfig C>
struct ScheduleOf<C, Schedule::groups> {
  using Type = GroupedRaster<C, GroupWalk<WarpLanes>>;
};
template <GemmConfig C>
struct ScheduleOf<C, Schedule::labels> {
  using Type = GroupedRaster<C, LabelWalk<WarpLanes>>;
};
template <GemmConfig C>
struct ScheduleOf<C, Schedule::k_groups> {
  using Type = GroupedRaster<C, KGroupWalk<WarpLanes>>;
};
template <GemmConfig C>
using TileSchedule = typename ScheduleOf<C, C.schedule>::Type;

// Whether the CTA has a tile at all.
template <GemmConfig C>
DEEPGEMM_DEVICE bool has_tiles(const GemmParams& p) {
  return TileSchedule<C>(p).valid();
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
