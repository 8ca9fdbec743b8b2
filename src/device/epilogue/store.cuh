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
  int parts;    // parts of units that it has stored before
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

// One unit as 16-bit elements into its chunks: two 8x8 matrices of rows 0-7 and 8-15 for each of
// two groups of eight columns per stmatrix.
template <GemmConfig C>
DEEPGEMM_DEVICE void stage_unit_16bit(const float* sum, u32 unit_staging) {
  constexpr int groups_per_chunk = C.chunk_columns() / 8;
  const int lane = ptx::lane_index();
  const int row = ptx::warp_index() % warps_per_group * 16 + (lane & 15);
  const int half = lane >> 4;
#pragma unroll
  for (int g = 0; g < C.group_columns() / 8; g += 2) {
    const u32 chunk = unit_staging + g / groups_per_chunk * C.chunk_bytes();
    const u32 offset = row * C.chunk_span() + (g % groups_per_chunk + half) * 16;
    ptx::store_matrix_x4(chunk + swizzled(offset, C.chunk_span()),
                         pack_pair<C.out_type>(sum[4 * g], sum[4 * g + 1]),
                         pack_pair<C.out_type>(sum[4 * g + 2], sum[4 * g + 3]),
                         pack_pair<C.out_type>(sum[4 * g + 4], sum[4 * g + 5]),
                         pack_pair<C.out_type>(sum[4 * g + 6], sum[4 * g + 7]));
  }
}

// Calls f(address, i) for each pair of neighbours sum[i], sum[i + 1] of this thread's share of a
// staged part.
template <GemmConfig C, class F>
DEEPGEMM_DEVICE void for_each_staged_pair(u32 unit_staging, F f) {
  constexpr int groups_per_chunk = C.chunk_columns() / 8;
  const int lane = ptx::lane_index();
  const int row = ptx::warp_index() % warps_per_group * 16 + lane / 4;
#pragma unroll
  for (int g = 0; g < C.part_columns() / 8; ++g) {
    const u32 chunk = unit_staging + g / groups_per_chunk * C.chunk_bytes();
    const u32 upper =
        row * C.chunk_span() + (g % groups_per_chunk * 8 + lane % 4 * 2) * C.staged_bytes();
    const u32 lower = upper + 8 * C.chunk_span();
    f(chunk + swizzled(upper, C.chunk_span()), 4 * g);
    f(chunk + swizzled(lower, C.chunk_span()), 4 * g + 2);
  }
}

// One part as FP32 into its chunks.
template <GemmConfig C>
DEEPGEMM_DEVICE void stage_part_f32(const float* sum, u32 unit_staging) {
  for_each_staged_pair<C>(unit_staging, [&](u32 address, int i) {
    ptx::store_shared_f32x2(address, sum[i], sum[i + 1]);
  });
}

// Adds C, which lies in the staging buffer, to one part there.
template <GemmConfig C>
DEEPGEMM_DEVICE void add_staged_part(const float* sum, u32 unit_staging) {
  for_each_staged_pair<C>(unit_staging, [&](u32 address, int i) {
    float x, y;
    if constexpr (C.out_type == ElementType::f32) {
      ptx::load_shared_f32x2(x, y, address);
      ptx::store_shared_f32x2(address, sum[i] + x, sum[i + 1] + y);
    } else {
      unpack_pair<C.out_type>(x, y, ptx::load_shared_u32(address));
      ptx::store_shared_u32(address, pack_pair<C.out_type>(sum[i] + x, sum[i + 1] + y));
    }
  });
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
      if constexpr (C.out_type == ElementType::f32) {
        stage_part_f32<C>(part_of<C>(sum[first + u], part), staging);
      } else {
        stage_unit_16bit<C>(sum[first + u], staging);
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

// Consumer's side of Epilogue::accumulate; the other side is move_c().
template <GemmConfig C>
DEEPGEMM_DEVICE void store_accumulated(float (&sum)[C.units()][C.accumulators()], u32 shared,
                                       int group, const OutPlace& place) {
  constexpr SharedMap map = shared_map(C);
#pragma unroll
  for (int i = 0; i < C.units() * C.unit_parts(); ++i) {
    ptx::mbarrier_wait(shared + map.c_full + group * 8, (place.parts + i) & 1);
    add_staged_part<C>(part_of<C>(sum[i / C.unit_parts()], i % C.unit_parts()), place.staging);
    ptx::fence_async_proxy();
    ptx::mbarrier_arrive(shared + map.c_added + group * 8);
  }
}

template <GemmConfig C>
DEEPGEMM_DEVICE void load_c(const GemmParams& p, const OutPlace& place, int unit, int part,
                            u32 full) {
  ptx::mbarrier_arm(full, C.staging_bytes());
  const int row = place.tile.row + unit * C.unit_pitch();
#pragma unroll
  for (int chunk = 0; chunk < C.part_columns() / C.chunk_columns(); ++chunk) {
    const u32 staging = place.staging + chunk * C.chunk_bytes();
    const int column = place.tile.column + part * C.part_columns() + chunk * C.chunk_columns();
    if constexpr (C.stacked()) {
      ptx::tma_load_3d(staging, p.c, column, row, matrix_of_out<C>(p, place.tile), full,
                       L2Policy::evict_normal);
    } else {
      ptx::tma_load_2d(staging, p.c, column, row, full);
    }
  }
}

// Run by one producer warp for each consumer warpgroup. For each part of a unit:
// | c_full[g]  | the warp's lane, with the bytes of C | waited on by the warpgroup |
// | c_added[g] | 128 threads of the warpgroup         | waited on by the warp      |
// The warp also sends the part, so that it knows when the buffer may be filled again: C of the next
// tile arrives while that tile is multiplied. Against TMA's own reduction into D
// (Epilogue::reduce): 306 to 430 us at 32768x4096x512, but 247 to 241 at 4096x4096x7168: the host
// chooses by K.
template <GemmConfig C>
DEEPGEMM_DEVICE void move_c(const GemmParams& p, u32 shared, int group) {
  constexpr SharedMap map = shared_map(C);
  const bool issues = ptx::elect_one();
  const u32 full = shared + map.c_full + group * 8, added = shared + map.c_added + group * 8;
  OutPlace place{{}, shared + map.out + group * C.staging_bytes(), 0, 0};
  int parts = 0;
#pragma unroll 1
  for (Raster<C> raster(p); raster.valid(); raster.advance()) {
    const Tile tile = raster.tile();
    place.tile.row = tile.row + group / C.consumers_n * unit_rows;
    place.tile.column = tile.column + group % C.consumers_n * C.group_columns();
    place.tile.group = tile.group;
#pragma unroll 1
    for (int i = 0; i < C.units() * C.unit_parts(); ++i, ++parts) {
      const int unit = i / C.unit_parts(), part = i % C.unit_parts();
      if (issues) load_c<C>(p, place, unit, part, full);
      ptx::mbarrier_wait(added, parts & 1);
      if (issues) {
        send_units<C>(p, place, unit, part);
        ptx::tma_store_wait_read();
      }
      ptx::sync_warp();
    }
  }
}

// Stores the warpgroup's sums and clears them.
template <GemmConfig C>
DEEPGEMM_DEVICE void store_tile(float (&sum)[C.units()][C.accumulators()], const GemmParams& p,
                                u32 shared, int group, const OutPlace& place) {
  if constexpr (C.epilogue == Epilogue::general) {
    store_generally<C>(sum, p, place);
  } else if constexpr (C.epilogue == Epilogue::accumulate) {
    store_accumulated<C>(sum, shared, group, place);
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
