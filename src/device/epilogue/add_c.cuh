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

// One chunk of C to the sums of a unit, from group Group of its eight columns on.
template <GemmConfig C, int Unit, int Column, int Group = 0>
DEEPGEMM_DEVICE void add_c_chunk(float (&sum)[C.units()][C.accumulators()], u32 chunk) {
  constexpr int groups = C.chunk_columns() / 8;
  if constexpr (Group < groups) {
    const PairPlace place = pair_place<C>(Group);
    float x[4];
    load_pair<C>(x[0], x[1], chunk + place.upper);
    load_pair<C>(x[2], x[3], chunk + place.lower);
    add_to_sums<C, Unit, Column * groups + Group>(sum, x);
    add_c_chunk<C, Unit, Column, Group + 1>(sum, chunk);
  }
}

}  // namespace deepgemm::device
