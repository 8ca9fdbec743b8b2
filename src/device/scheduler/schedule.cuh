// The schedule of a config: a raster of all tiles, or a walk over groups.
#pragma once

#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "ptx/thread.cuh"
#include "scheduler/grouped.cuh"
#include "scheduler/lanes.cuh"
#include "scheduler/raster.cuh"

namespace deepgemm::device {

// A walk with the interface of a raster, one tile behind it, so that last() costs nothing. All
// lanes of a warp walk together.
template <GemmConfig C, class Walk>
struct GroupSchedule {
  Walk walk;
  Tile now;
  bool found;
  static constexpr i32 rank = 0;

  DEEPGEMM_DEVICE explicit GroupSchedule(const GemmParams& p)
      : walk(p.groups.vector,
             {C.tile_m, C.tile_n, ceil_div(p.n, static_cast<i32>(C.tile_n)), p.raster_group},
             ptx::cta_index(), ptx::cta_count()) {
    advance();
  }

  DEEPGEMM_DEVICE bool valid() const { return found; }
  DEEPGEMM_DEVICE bool last() const { return !walk.valid(); }
  DEEPGEMM_DEVICE Tile tile() const { return now; }
  DEEPGEMM_DEVICE void advance() {
    found = walk.valid();
    if (!found) return;
    const GroupTile tile = walk.tile();
    now = {tile.row, tile.column, tile.group, tile.end};
    walk.advance();
  }
};

template <GemmConfig C, Schedule>
struct ScheduleOf {
  using Type = Raster<C>;
};
template <GemmConfig C>
struct ScheduleOf<C, Schedule::groups> {
  using Type = GroupSchedule<C, GroupWalk<WarpLanes>>;
};
template <GemmConfig C>
struct ScheduleOf<C, Schedule::labels> {
  using Type = GroupSchedule<C, LabelWalk<WarpLanes>>;
};
template <GemmConfig C>
using TileSchedule = typename ScheduleOf<C, C.schedule>::Type;

// Whether the CTA has a tile at all.
template <GemmConfig C>
DEEPGEMM_DEVICE bool has_tiles(const GemmParams& p) {
  return TileSchedule<C>(p).valid();
}

// Which matrix of a, sfa, c and out the tile lies in.
DEEPGEMM_DEVICE i32 matrix_of(const GemmParams& p, const Tile& tile) {
  return p.groups.stacked != 0 ? tile.group : 0;
}

}  // namespace deepgemm::device
