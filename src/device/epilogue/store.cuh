// From a warpgroup's sums to D: through shared memory and TMA, or by plain stores.
#pragma once

#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "common/swizzle.cuh"
#include "epilogue/transform.cuh"
#include "ptx/barrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/tma.cuh"
#include "scheduler/schedule.cuh"

namespace deepgemm::device {

// Where a consumer warpgroup's part of D lies.
struct OutPlace {
  Tile tile;    // its first row and column; with a grouped schedule also whose they are
  u32 staging;  // its D buffer in shared memory
  int barrier;  // its named barrier
};

template <ElementType Type>
DEEPGEMM_DEVICE u32 pack_pair(float low, float high) {
  if constexpr (Type == ElementType::bf16) {
    return ptx::pack_bf16(low, high);
  } else {
    return ptx::pack_f16(low, high);
  }
}

template <ElementType Type>
DEEPGEMM_DEVICE void unpack_pair(float& low, float& high, u32 packed) {
  if constexpr (Type == ElementType::bf16) {
    ptx::unpack_bf16(low, high, packed);
  } else {
    ptx::unpack_f16(low, high, packed);
  }
}

// One part as 16-bit elements into its chunks: two 8x8 matrices of rows 0-7 and 8-15, of
// eight columns and the next eight, per stmatrix.
template <GemmConfig C>
DEEPGEMM_DEVICE void stage_part_16bit(const float* sum, u32 part_staging) {
  constexpr int groups_per_chunk = C.chunk_columns() / 8;
  const int lane = ptx::lane_index();
  const int row = ptx::warp_index() % warps_per_group * 16 + (lane & 15);
  const int half = lane >> 4;
#pragma unroll
  for (int g = 0; g < C.part_columns() / 8; g += 2) {
    const u32 chunk = part_staging + g / groups_per_chunk * C.chunk_bytes();
    const u32 offset = row * C.chunk_span() + (g % groups_per_chunk + half) * 16;
    ptx::store_matrix_x4(chunk + swizzled(offset, C.chunk_span()),
                         pack_pair<C.out_type>(sum[4 * g], sum[4 * g + 1]),
                         pack_pair<C.out_type>(sum[4 * g + 2], sum[4 * g + 3]),
                         pack_pair<C.out_type>(sum[4 * g + 4], sum[4 * g + 5]),
                         pack_pair<C.out_type>(sum[4 * g + 6], sum[4 * g + 7]));
  }
}

// Where this thread's pairs of neighbours lie in a chunk: elements 0, 1 and 2, 3 of group `g` of
// eight columns.
struct PairPlace {
  u32 upper, lower;
};
template <GemmConfig C>
DEEPGEMM_DEVICE PairPlace pair_place(int g) {
  const int lane = ptx::lane_index();
  const int row = ptx::warp_index() % warps_per_group * 16 + lane / 4;
  const u32 upper = row * C.chunk_span() + (g * 8 + lane % 4 * 2) * C.staged_bytes();
  return {swizzled(upper, C.chunk_span()), swizzled(upper + 8 * C.chunk_span(), C.chunk_span())};
}

// One part as FP32 into its chunks.
template <GemmConfig C>
DEEPGEMM_DEVICE void stage_part_f32(const float* sum, u32 part_staging) {
  constexpr int groups_per_chunk = C.chunk_columns() / 8;
#pragma unroll
  for (int g = 0; g < C.part_columns() / 8; ++g) {
    const u32 chunk = part_staging + g / groups_per_chunk * C.chunk_bytes();
    const PairPlace place = pair_place<C>(g % groups_per_chunk);
    ptx::store_shared_f32x2(chunk + place.upper, sum[4 * g], sum[4 * g + 1]);
    ptx::store_shared_f32x2(chunk + place.lower, sum[4 * g + 2], sum[4 * g + 3]);
  }
}

// The sums of a part of a unit.
template <GemmConfig C>
DEEPGEMM_DEVICE float* part_of(float (&unit)[C.accumulators()], int part) {
  return unit + part * (C.part_columns() / 2);
}

// One thread sends the staged units (or part of one); chunks that lie outside D are not sent, TMA
// clips the rest.
template <GemmConfig C>
DEEPGEMM_DEVICE void send_units(const GemmParams& p, const OutPlace& place, int first_unit,
                                int part) {
#pragma unroll
  for (int u = 0; u < C.units_per_store(); ++u) {
    const int row = place.tile.row + (first_unit + u) * C.unit_pitch();
#pragma unroll
    for (int chunk = 0; chunk < C.part_columns() / C.chunk_columns(); ++chunk) {
      const int column = place.tile.column + part * C.part_columns() + chunk * C.chunk_columns();
      if (row < p.m && column < p.n) {
        const u32 source = place.staging + u * C.staged_part_bytes() + chunk * C.chunk_bytes();
        if constexpr (C.epilogue == Epilogue::reduce && C.stacked()) {
          ptx::tma_add_3d(p.out, column, row, matrix_of_out<C>(p, place.tile), source);
        } else if constexpr (C.epilogue == Epilogue::reduce) {
          ptx::tma_add_2d(p.out, column, row, source);
        } else if constexpr (C.stacked()) {
          ptx::tma_store_3d(p.out, column, row, matrix_of_out<C>(p, place.tile), source);
        } else {
          ptx::tma_store_2d(p.out, column, row, source);
        }
      }
    }
  }
  ptx::tma_store_commit();
}

// Whether all rows of the units from `first` on that leave together are the group's.
template <GemmConfig C>
DEEPGEMM_DEVICE bool has_whole_units(const Tile& tile, int first) {
  const int last = first + C.units_per_store() - 1;
  return tile.first <= tile.row && tile.row + last * C.unit_pitch() + unit_rows <= tile.end;
}

// Where there are rows of another group, which TMA would write too: each warp copies those of its
// own 16 staged rows of each unit that are the group's, 16 bytes at a time. The host sees to it
// that rows of D are whole units of 16 bytes.
template <GemmConfig C>
DEEPGEMM_DEVICE void copy_staged_rows(const GemmParams& p, const OutPlace& place, int first,
                                      int part) {
  constexpr int units_per_row = C.chunk_span() / 16, elements = 16 / C.staged_bytes();
  constexpr int rows_per_step = 32 / units_per_row;
  constexpr int chunks = C.part_columns() / C.chunk_columns();
  const int first_column = place.tile.column + part * C.part_columns();
  const int lane = ptx::lane_index();
  const int warp_row = ptx::warp_index() % warps_per_group * 16 + lane / units_per_row;
  const int unit_in_row = lane % units_per_row;
  u8* out = static_cast<u8*>(p.out_data) +
            (matrix_of_out<C>(p, place.tile) * p.groups.out + first_column) * C.staged_bytes();
  ptx::sync_warp();
#pragma unroll 1
  for (int i = 0; i < C.units_per_store() * chunks * (16 / rows_per_step); ++i) {
    const int step = i % (16 / rows_per_step), chunk = i / (16 / rows_per_step) % chunks;
    const int unit = i / (16 / rows_per_step) / chunks;
    const int row = warp_row + step * rows_per_step;  // of the unit
    const int column = chunk * C.chunk_columns() + unit_in_row * elements;
    const u32 staged = place.staging + unit * C.staged_part_bytes() + chunk * C.chunk_bytes() +
                       swizzled(row * C.chunk_span() + unit_in_row * 16, C.chunk_span());
    const i64 m = place.tile.row + (first + unit) * C.unit_pitch() + row;
    if (m >= place.tile.first && m < place.tile.end && first_column + column < p.n) {
      ptx::store_global_i32x4(out + (m * p.out_row + column) * C.staged_bytes(),
                              ptx::load_shared_i32x4(staged));
    }
  }
}

// The stores stay in flight while the next tile is multiplied; the buffer is waited for before it
// is written again. The same thread of the warpgroup sends and waits.
template <GemmConfig C>
DEEPGEMM_DEVICE void store_by_tma(float (&sum)[C.units()][C.accumulators()], const GemmParams& p,
                                  const OutPlace& place) {
  const bool sender = ptx::thread_index() % 128 == 0;
#pragma unroll
  for (int i = 0; i < C.units() * C.unit_parts(); i += C.units_per_store()) {
    const int first = i / C.unit_parts(), part = i % C.unit_parts();
    if constexpr (C.row_grouped()) {  // units without a row of the group
      if (place.tile.row + first * C.unit_pitch() >= place.tile.end) continue;
    }
    if (sender) ptx::tma_store_wait_read();
    ptx::named_barrier_sync(place.barrier, 128);
#pragma unroll
    for (int u = 0; u < C.units_per_store(); ++u) {
      const u32 staging = place.staging + u * C.staged_part_bytes();
      const float* values = part_of<C>(sum[first + u], part);
      if constexpr (C.out_type == ElementType::f32) {
        stage_part_f32<C>(values, staging);
      } else {
        stage_part_16bit<C>(values, staging);
      }
    }
    if constexpr (C.row_grouped()) {
      if (!has_whole_units<C>(place.tile, first)) {
        copy_staged_rows<C>(p, place, first, part);
        continue;
      }
    }
    ptx::fence_async_proxy();
    ptx::named_barrier_sync(place.barrier, 128);
    if (sender) send_units<C>(p, place, first, part);
  }
}

// One warp's 16 rows of a staged part through transform() to D, one row of a chunk at a time: any
// address, pitch and edge, with neighbouring lanes on neighbouring columns. Rolled, because the
// activations unrolled over 64 sums take a second to compile.
template <GemmConfig C>
DEEPGEMM_DEVICE void store_staged_rows(const GemmParams& p, u32 staging, const Tile& tile) {
  const int first_row = ptx::warp_index() % warps_per_group * 16;
  const int lane = ptx::lane_index();
  constexpr int rows_per_step = 32 / C.chunk_columns();
  constexpr int steps = 16 / rows_per_step;
  const int lane_row = lane / C.chunk_columns(), lane_column = lane % C.chunk_columns();
  EpilogueParams epilogue = p.epilogue;
  i64 out = 0;  // where the tile's matrix begins
  i32 begin = 0, end = p.m;
  if constexpr (C.stacked()) {
    const i64 matrix = matrix_of_out<C>(p, tile);
    if constexpr (C.row_grouped()) {
      begin = tile.first;
      end = min_of(tile.end, p.m);
    }
    out = matrix * p.groups.out;
    move_to_group(epilogue, tile.group * p.groups.bias, matrix * p.groups.c);
  }
#pragma unroll 1
  for (int i = 0; i < steps * C.part_columns() / C.chunk_columns(); ++i) {
    const int chunk = i / steps;
    const int r = first_row + i % steps * rows_per_step + lane_row;
    const i64 m = tile.row + r, n = tile.column + chunk * C.chunk_columns() + lane_column;
    const u32 offset = swizzled(r * C.chunk_span() + lane_column * 4, C.chunk_span());
    const float sum = ptx::load_shared_f32(staging + chunk * C.chunk_bytes() + offset);
    if (m >= begin && m < end && n < p.n) {
      store_element(p.out_data, out + m * p.out_row + n * p.out_column,
                    static_cast<ElementType>(epilogue.out_type), transform(sum, epilogue, m, n));
    }
  }
}

// Each warp stages and reads its own rows, so that no barrier of the warpgroup is needed.
template <GemmConfig C>
DEEPGEMM_DEVICE void store_generally(float (&sum)[C.units()][C.accumulators()], const GemmParams& p,
                                     const OutPlace& place) {
#pragma unroll
  for (int i = 0; i < C.units() * C.unit_parts(); ++i) {
    const int u = i / C.unit_parts(), part = i % C.unit_parts();
    ptx::sync_warp();
    stage_part_f32<C>(part_of<C>(sum[u], part), place.staging);
    ptx::sync_warp();
    Tile where = place.tile;
    where.row += u * C.unit_pitch();
    where.column += part * C.part_columns();
    store_staged_rows<C>(p, place.staging, where);
  }
}

// Stores the warpgroup's sums and clears them.
template <GemmConfig C>
DEEPGEMM_DEVICE void store_tile(float (&sum)[C.units()][C.accumulators()], const GemmParams& p,
                                const OutPlace& place) {
  if constexpr (C.epilogue == Epilogue::general) {
    store_generally<C>(sum, p, place);
  } else {
    store_by_tma<C>(sum, p, place);
  }
#pragma unroll
  for (int u = 0; u < C.units(); ++u) {
#pragma unroll
    for (int i = 0; i < C.accumulators(); ++i) sum[u][i] = 0.0f;
  }
}

}  // namespace deepgemm::device
