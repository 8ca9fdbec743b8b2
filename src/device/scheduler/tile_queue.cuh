// The tiles of groups: one warp works them out, ahead of the producer warps that need them.
//
// Why a warp of its own: a walk over groups is a chain of steps, of 2 us a tile for labels. In each
// of the producer warps it took registers, and operands were missing meanwhile.
//
// | barrier       | arrivals per phase          | waited on by             |
// |---------------|-----------------------------|--------------------------|
// | tile_full[i]  | lane 0 of the schedule warp | the other producer warps |
// | tile_empty[i] | lane 0 of each of those     | the schedule warp        |
#pragma once

#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "pipeline/ring.cuh"
#include "ptx/memory.cuh"
#include "ptx/thread.cuh"
#include "scheduler/grouped.cuh"
#include "scheduler/k_grouped.cuh"
#include "scheduler/lanes.cuh"
#include "scheduler/raster.cuh"

namespace deepgemm::device {

template <GemmConfig C>
struct TileRing : Ring<C.tile_slots()> {
  u32 slots;

  static constexpr SharedMap map = shared_map(C);

  DEEPGEMM_DEVICE explicit TileRing(u32 shared)
      : Ring<C.tile_slots()>{shared + map.tile_full, shared + map.tile_empty},
        slots(shared + map.tiles) {}

  DEEPGEMM_DEVICE u32 slot() const {
    return slots + this->stage * static_cast<int>(sizeof(TileSlot));
  }
};

template <GemmConfig C>
DEEPGEMM_DEVICE Tile place_of(const GroupTile& tile) {
  return {tile.row, tile.column, tile.group, tile.first, tile.end};
}
template <GemmConfig C>
DEEPGEMM_DEVICE Tile place_of(const KGroupTile& tile) {
  const i32 start = aligned_down(tile.k, C.k_align());
  const bool none = tile.k_end <= tile.k;
  return {
      tile.row, tile.column, tile.group, none ? 0 : tile.k - start, none ? 0 : tile.k_end - start,
      start,    tile.block};
}

// The schedule warp's loop over a walk. A CTA without a tile gets a slot that says so.
template <GemmConfig C, class Walk>
DEEPGEMM_DEVICE void produce_tiles_of(Walk walk, u32 shared) {
  TileRing<C> ring(shared);
  i32 flags = 0;
#pragma unroll 1
  do {
    Tile tile;
    flags = walk.valid() ? 1 : 0;
    if (flags != 0) {
      tile = place_of<C>(walk.tile());
      walk.advance();
      if (walk.valid()) flags |= 2;
    }
    ring.acquire();
    if (ptx::lane_index() == 0) {
      ptx::store_shared_i32x4(ring.slot(), tile.row, tile.column, tile.group, flags);
      ptx::store_shared_i32x4(ring.slot() + 16, tile.first, tile.end, tile.k, tile.block);
      ptx::mbarrier_arrive(ring.full());
    }
    ring.advance();
  } while ((flags & 2) != 0);
}

// Run by the schedule warp.
template <GemmConfig C>
DEEPGEMM_DEVICE void produce_tiles(const GemmParams& p, u32 shared) {
  const GroupTiling tiling = {
      C.tile_m,       C.tile_n,      ceil_div(p.n, static_cast<i32>(C.tile_n)),
      p.raster.group, C.row_align(), unit_rows};
  const GroupVector& vector = p.groups.vector;
  const i32 first = ptx::cta_index(), step = ptx::cta_count();
  if constexpr (C.schedule == Schedule::k_groups) {
    const i32 tiles_m = ceil_div(p.m, static_cast<i32>(C.tile_m));
    produce_tiles_of<C>(KGroupWalk<WarpLanes>(vector, tiling, tiles_m, first, step), shared);
  } else if constexpr (C.schedule == Schedule::labels) {
    produce_tiles_of<C>(LabelWalk<WarpLanes>(vector, tiling, first, step), shared);
  } else {
    produce_tiles_of<C>(GroupWalk<WarpLanes>(vector, tiling, first, step), shared);
  }
}

// What the other producer warps see of it, with the interface of a raster.
template <GemmConfig C>
struct TileQueue {
  TileRing<C> ring;
  Tile now;
  i32 flags;
  static constexpr i32 rank = 0;

  DEEPGEMM_DEVICE explicit TileQueue(u32 shared) : ring(shared) { take(); }

  DEEPGEMM_DEVICE bool valid() const { return (flags & 1) != 0; }
  DEEPGEMM_DEVICE bool last() const { return (flags & 2) == 0; }
  DEEPGEMM_DEVICE Tile tile() const { return now; }
  DEEPGEMM_DEVICE void advance() {
    if (last()) {
      flags = 0;
    } else {
      take();
    }
  }

  DEEPGEMM_DEVICE void take() {
    ring.wait_full();
    const ptx::Int4 a = ptx::load_shared_i32x4(ring.slot());
    const ptx::Int4 b = ptx::load_shared_i32x4(ring.slot() + 16);
    now = {a.x, a.y, a.z, b.x, b.y, b.z, b.w};
    flags = ptx::shuffle(a.w, 0);  // the loops over tiles stay uniform
    ptx::sync_warp();
    if (ptx::lane_index() == 0) ptx::mbarrier_arrive(ring.empty());
    ring.advance();
  }
};

}  // namespace deepgemm::device
