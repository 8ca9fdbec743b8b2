// Adds C, which comes through the ring behind a tile's K blocks (load_c), to the tile's sums.
#pragma once

#include "common/gemm_config.cuh"
#include "common/swizzle.cuh"
#include "epilogue/store.cuh"
#include "ptx/memory.cuh"
#include "ptx/wgmma.cuh"

namespace deepgemm::device {

template <GemmConfig C>
DEEPGEMM_DEVICE void load_pair(float& x, float& y, u32 address) {
  if constexpr (C.out_type == ElementType::f32) {
    ptx::load_shared_f32x2(x, y, address);
  } else {
    unpack_pair<C.out_type>(x, y, ptx::load_shared_u32(address));
  }
}

// To the sums of one group of eight columns. Those of 16-bit operands lie in WGMMA's accumulators.
// Why there: copies that differ from the accumulators would live beside them.
template <GemmConfig C, int Unit, int Group>
DEEPGEMM_DEVICE void add_to_sums(float (&sum)[C.units()][C.accumulators()], const float (&x)[4]) {
  if constexpr (C.scaled()) {
#pragma unroll
    for (int i = 0; i < 4; ++i) sum[Unit][4 * Group + i] += x[i];
  } else {
    ptx::Partial<Group, Unit>::add(x[0], x[1], x[2], x[3]);
  }
}

// The groups of eight columns from Group up to End of one unit, whose chunks begin at `chunks`.
template <GemmConfig C, int Unit, int Group, int End>
DEEPGEMM_DEVICE void add_c_columns(float (&sum)[C.units()][C.accumulators()], u32 chunks) {
  if constexpr (Group < End) {
    constexpr int groups = C.chunk_columns() / 8, columns = C.c_block_chunks() * groups;
    const u32 chunk = chunks + Group % columns / groups * (C.tile_m / unit_rows) * C.chunk_bytes();
    const PairPlace place = pair_place<C>(Group % groups);
    float x[4];
    load_pair<C>(x[0], x[1], chunk + place.upper);
    load_pair<C>(x[2], x[3], chunk + place.lower);
    add_to_sums<C, Unit, Group>(sum, x);
    add_c_columns<C, Unit, Group + 1, End>(sum, chunks);
  }
}

// A block of columns, which begins at `c` in the ring.
template <GemmConfig C, int Block, int Unit = 0>
DEEPGEMM_DEVICE void add_c_block(float (&sum)[C.units()][C.accumulators()], u32 c, int group) {
  if constexpr (Unit < C.units()) {
    constexpr int columns = C.c_block_chunks() * C.chunk_columns() / 8, first = Block * columns;
    const int unit = Unit * C.consumers_m() + group;
    add_c_columns<C, Unit, first, min_of(first + columns, C.group_columns() / 8)>(
        sum, c + unit * C.chunk_bytes());
    add_c_block<C, Block, Unit + 1>(sum, c, group);
  }
}

}  // namespace deepgemm::device
