// Grouped products of every form, dtype, granularity, layout and stride: the tile of
// kernels/general_gemm.cuh, walked group by group by persistent CTAs. Right, not fast.
//
// Every warp of a CTA runs the schedule by itself. All read the same vector and come to the same
// tile, so that nothing is passed between them. Whatever the vector says, a tile lies inside the
// arrays, and rows past its group's end are neither read nor written.
#pragma once

#include "kernels/general_gemm.cuh"
#include "scheduler/grouped.cuh"
#include "scheduler/k_grouped.cuh"
#include "scheduler/lanes.cuh"

namespace deepgemm::device {

DEEPGEMM_DEVICE i64 bytes_in(i64 elements, i32 type) {
  return elements * bytes_of(static_cast<ElementType>(type));
}

// Null stays null: it says that there is no such operand.
DEEPGEMM_DEVICE void advance(const void*& data, i64 elements, i32 type) {
  if (data != nullptr) data = static_cast<const u8*>(data) + bytes_in(elements, type);
}

DEEPGEMM_DEVICE void advance(OperandParams& x, i64 elements, i64 factors) {
  advance(x.data, elements, x.type);
  advance(x.sf, factors, x.sf_type);
}

// What group `group` multiplies and where its result goes; all of it but rows and K.
DEEPGEMM_DEVICE GeneralGemmParams product_of_group(const GeneralGroupedParams& p, i64 group) {
  GeneralGemmParams own = p.product;
  EpilogueParams& e = own.epilogue;
  advance(own.a, group * p.a_group, group * p.sfa_group);
  advance(own.b, group * p.b_group, group * p.sfb_group);
  own.out = static_cast<u8*>(own.out) + bytes_in(group * p.out_group, e.out_type);
  move_to_group(e, group * p.bias_group, group * p.c_group);
  return own;
}

DEEPGEMM_DEVICE GroupTiling general_tiling(const GeneralGroupedParams& p) {
  constexpr i32 tile = GeneralConfig::tile;
  const i32 tiles_n = static_cast<i32>(ceil_div(p.product.n, static_cast<i64>(tile)));
  return {tile, tile, tiles_n, GeneralGroupedConfig::band};
}

// Rows by groups: Walk is GroupWalk or LabelWalk.
template <class Walk>
DEEPGEMM_DEVICE void general_grouped_rows(const GeneralGroupedParams& p) {
  Walk walk(p.groups, general_tiling(p), ptx::cta_index(), ptx::cta_count());
#pragma unroll 1
  for (; walk.valid(); walk.advance()) {
    const GroupTile tile = walk.tile();
    GeneralGemmParams own = product_of_group(p, tile.group);
    own.m = tile.end;
    general_tile(own, tile.row, tile.column);
    ptx::sync_cta();  // the panels hold sums that others may still have to store
  }
}

// K by groups, factors counted per group. Groups without K give what follows a sum of 0.
DEEPGEMM_DEVICE void general_grouped_k(const GeneralGroupedParams& p) {
  using Walk = KGroupWalk<WarpLanes>;
  const i64 rows = p.product.m;
  const i32 tiles_m = static_cast<i32>(ceil_div(rows, static_cast<i64>(GeneralConfig::tile)));
  Walk walk(p.groups, general_tiling(p), tiles_m, ptx::cta_index(), ptx::cta_count());
#pragma unroll 1
  for (; walk.valid(); walk.advance()) {
    const KGroupTile tile = walk.tile();
    GeneralGemmParams own = product_of_group(p, tile.group);
    advance(own.a, tile.k * own.a.k, tile.block * own.a.sf_k);
    advance(own.b, tile.k * own.b.k, tile.block * own.b.sf_k);
    const i64 blocks = max_of(p.scale_blocks - tile.block, i64{0});
    own.k = min_of(static_cast<i64>(tile.k_end - tile.k), blocks * Walk::k_per_block);
    general_tile(own, tile.row, tile.column);
    ptx::sync_cta();
  }
}

template <GeneralGroupedConfig C>
DEEPGEMM_DEVICE void general_grouped(const GeneralGroupedParams& p) {
  if constexpr (C.schedule == GroupSchedule::rows) {
    general_grouped_rows<GroupWalk<WarpLanes>>(p);
  } else if constexpr (C.schedule == GroupSchedule::labels) {
    general_grouped_rows<LabelWalk<WarpLanes>>(p);
  } else {
    general_grouped_k(p);
  }
}

}  // namespace deepgemm::device
