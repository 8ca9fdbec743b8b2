// Scale factors of a K block in registers, and the promotion of a partial sum with them.
#pragma once

#include "common/gemm_config.cuh"
#include "pipeline/ring.cuh"
#include "ptx/memory.cuh"
#include "ptx/wgmma.cuh"

namespace deepgemm::device {

// Factors that one thread needs for one K block: two rows in each unit, two column blocks.
template <GemmConfig C>
struct Scales {
  float row[C.units()][2];
  float column[2];
  u32 columns;  // column_scales: where this lane's first factor lies in the stage
};

// `row_in_tile` is this thread's row of its first unit: group row + 16 * warp + lane / 4.
template <GemmConfig C>
DEEPGEMM_DEVICE void load_scales(Scales<C>& scales, const GemmRing<C>& ring, int row_in_tile,
                                 int group) {
  const u32 rows = ring.sfa() + row_in_tile * 4;
#pragma unroll
  for (int unit = 0; unit < C.units(); ++unit) {
    scales.row[unit][0] = ptx::load_shared_f32(rows + unit * C.unit_pitch() * 4);
    scales.row[unit][1] = ptx::load_shared_f32(rows + unit * C.unit_pitch() * 4 + 32);
  }
  if constexpr (C.column_scales) {
    scales.columns =
        ring.sfb() + group % C.consumers_n * C.group_columns() * 4 + ptx::lane_index() % 4 * 8;
  } else if constexpr (C.straddles_scales()) {
    scales.column[0] = ptx::load_shared_f32(ring.header());
    scales.column[1] = ptx::load_shared_f32(ring.header() + 4);
  } else {
    const int block = group % C.consumers_n * C.group_columns() / scale_block_n;
    scales.column[0] = ptx::load_shared_f32(ring.header() + block * 4);
  }
}

template <int Granule, int Columns, int Group = 0>
DEEPGEMM_DEVICE void promote_groups(float* sum, const float* upper, const float* lower) {
  if constexpr (Group * 8 < Columns) {
    const float u = upper[Group * 8 / Granule], l = lower[Group * 8 / Granule];
    ptx::Promote<Group, 0>::apply(sum, u, u, l, l);
    promote_groups<Granule, Columns, Group + 1>(sum, upper, lower);
  }
}

// Columns of a warpgroup that belong to the first scale block of its tile.
template <GemmConfig C>
DEEPGEMM_DEVICE int columns_of_near_scale(int tile_column, int group) {
  return scale_block_n - tile_column % scale_block_n - group % C.consumers_n * C.group_columns();
}

// Factors per column, as products with both rows' factors: computed while the unit is multiplied
// (early_factors), one for each sum.
template <GemmConfig C, int Group = 0>
DEEPGEMM_DEVICE void multiply_factors(float* factors, const Scales<C>& scales) {
  if constexpr (Group * 8 < C.group_columns()) {
    float even, odd;
    ptx::load_shared_f32x2(even, odd, scales.columns + Group * 32);
    factors[4 * Group] = ptx::multiply_here(scales.row[0][0], even);
    factors[4 * Group + 1] = ptx::multiply_here(scales.row[0][0], odd);
    factors[4 * Group + 2] = ptx::multiply_here(scales.row[0][1], even);
    factors[4 * Group + 3] = ptx::multiply_here(scales.row[0][1], odd);
    multiply_factors<C, Group + 1>(factors, scales);
  }
}
template <int Columns, int Group = 0>
DEEPGEMM_DEVICE void promote_by(float* sum, const float* factors) {
  if constexpr (Group * 8 < Columns) {
    const float* f = factors + 4 * Group;
    ptx::Promote<Group, 0>::apply(sum, f[0], f[1], f[2], f[3]);
    promote_by<Columns, Group + 1>(sum, factors);
  }
}

// The factors of eight columns differ, and are read from the stage as they are used. Why not kept
// in registers: 128 columns need 32 of them, and the sums leave none.
template <int Columns, int Group = 0>
DEEPGEMM_DEVICE void promote_columns(float* sum, float upper, float lower, u32 columns) {
  if constexpr (Group * 8 < Columns) {
    float even, odd;
    ptx::load_shared_f32x2(even, odd, columns + Group * 32);
    ptx::Promote<Group, 0>::apply(sum, upper * even, upper * odd, lower * even, lower * odd);
    promote_columns<Columns, Group + 1>(sum, upper, lower, columns);
  }
}

// sum += sfa * sfb * partial.
template <GemmConfig C>
DEEPGEMM_DEVICE void promote(float* sum, const Scales<C>& scales, int unit, int near_columns) {
  constexpr int columns = C.group_columns();
  const float a0 = scales.row[unit][0], a1 = scales.row[unit][1];
  if constexpr (C.column_scales) {
    promote_columns<columns>(sum, a0, a1, scales.columns);
  } else if constexpr (!C.straddles_scales()) {
    const float upper[1] = {a0 * scales.column[0]}, lower[1] = {a1 * scales.column[0]};
    promote_groups<columns, columns>(sum, upper, lower);
  } else {
    constexpr int granule = C.scale_granule();
    constexpr int granules = ceil_div(columns, granule);
    float upper[granules], lower[granules];
#pragma unroll
    for (int g = 0; g < granules; ++g) {
      const float factor = g * granule < near_columns ? scales.column[0] : scales.column[1];
      upper[g] = a0 * factor;
      lower[g] = a1 * factor;
    }
    promote_groups<granule, columns>(sum, upper, lower);
  }
}

}  // namespace deepgemm::device
