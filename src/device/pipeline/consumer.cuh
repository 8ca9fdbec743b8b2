// A consumer warpgroup: multiply, promote, store.
#pragma once

#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "epilogue/add_c.cuh"
#include "epilogue/cluster_sum.cuh"
#include "epilogue/store.cuh"
#include "mma/multiply.cuh"
#include "pipeline/clear.cuh"
#include "pipeline/ring.cuh"
#include "scale/promote.cuh"
#include "scheduler/schedule.cuh"

namespace deepgemm::device {

inline constexpr int store_barrier = 1;  // named barriers 1..3: one per consumer warpgroup
inline constexpr int turn_barrier = 4;   // named barriers 4, 5: whose turn it is to issue
inline constexpr int clear_barrier = 6;  // of all consumers
inline constexpr int start_barrier = 7;  // of the CTA: the ring's barriers are there

// Two warpgroups that issue in turn stay out of phase: one promotes while the other multiplies.
// Why: in phase, both promote at the same time and the tensor core idles (668 -> 641 us at
// 4096x7168x16384).
template <GemmConfig C>
DEEPGEMM_DEVICE void take_turn(int group) {
  if constexpr (C.ordered) ptx::named_barrier_sync(turn_barrier + group, 256);
}
template <GemmConfig C>
DEEPGEMM_DEVICE void pass_turn(int group) {
  if constexpr (C.ordered) ptx::named_barrier_arrive(turn_barrier + (1 - group), 256);
}

template <GemmConfig C>
struct Consumer {
  int group;        // consumer warpgroup
  int row_in_tile;  // this thread's first row
  int writer;       // see release()
  Operands operands;
  GemmRing<C> ring;
  Scales<C> scales{};  // of the stage that is multiplied next
  Tile tile;           // the warpgroup's first row and column in D
  int k_blocks = 0;
  bool more = true;
  int near_columns = 0;

  DEEPGEMM_DEVICE Consumer(u32 shared, int warp)
      : group(warp / warps_per_group),
        row_in_tile(group / C.consumers_n * unit_rows + warp % warps_per_group * 16 +
                    ptx::lane_index() / 4),
        writer(writer_of_lane<C>()),
        operands(warpgroup_operands<C>(shared, group)),
        ring(shared) {}

  // Waits for the stage and reads its factors.
  DEEPGEMM_DEVICE void fetch() {
    ring.wait_full();
    load_scales<C>(scales, ring, row_in_tile, group);
  }
  // The same for a tile's first stage, whose header says where the tile lies, or that the CTA has
  // none: k_blocks is 0.
  DEEPGEMM_DEVICE void fetch_tile() {
    ring.wait_full();
    const ptx::Int4 place = ptx::load_shared_i32x4(ring.header() + 16);
    // Why shuffles: they make the loop's bounds uniform.
    const int tile_column = ptx::shuffle(place.y, 0);
    const int tile_row = ptx::shuffle(place.x, 0), flags = ptx::shuffle(place.w, 0);
    tile.row = tile_row + group / C.consumers_n * unit_rows;
    tile.column = tile_column + group % C.consumers_n * C.group_columns();
    k_blocks = ptx::shuffle(place.z, 0);
    if (C.grouped() && k_blocks == 0) return;
    more = (flags & 1) != 0;
    tile.first = C.k_grouped() ? flags / 2 : tile_row + flags / 2;
    if constexpr (C.stacked()) {
      const ptx::Int4 group_and_end = ptx::load_shared_i32x4(ring.header());
      tile.group = ptx::shuffle(group_and_end.z, 0);
      tile.end = ptx::shuffle(group_and_end.w, 0);
    }
    if constexpr (C.scaled()) {
      if (!has_no_k()) load_scales<C>(scales, ring, row_in_tile, group);
      near_columns = columns_of_near_scale<C>(tile_column, group);
    }
  }

  // Units that have rows of the tile's group.
  DEEPGEMM_DEVICE int live_units() const {
    if constexpr (!C.row_grouped()) return C.units();
    const int rows = tile.end - tile.row;
    return max_of(0, min_of(static_cast<int>(C.units()), ceil_div(rows, C.unit_pitch())));
  }

  // Without factors a group without K is a stage of which nothing is kept: it takes no branch, over
  // which the sums would have to live beside the accumulators.
  DEEPGEMM_DEVICE bool has_no_k() const { return C.k_grouped() && C.scaled() && tile.end == 0; }

  // Gives a stage back. That of a group without K has nothing to multiply.
  DEEPGEMM_DEVICE void pass_stage() {
    release<C>(ring, ring.stage, writer);
    ring.advance();
  }

  // Where a group's K begins or ends inside a stage, the rest of the stage is a neighbour's.
  DEEPGEMM_DEVICE void clear_neighbours(bool first, bool last) {
    const KeptK kept = {first ? tile.first : 0,
                        last ? (tile.end - 1) % C.stage_k() + 1 : static_cast<int>(C.stage_k())};
    if (kept.begin == 0 && kept.end == C.stage_k()) return;
    clear_stage<C>(ring.a(), ring.b(), kept, ptx::thread_index());
    ptx::fence_async_proxy();
    ptx::named_barrier_sync(clear_barrier, C.consumers * 128);
  }

  // One K block. On entry its stage is full and its factors are in `scales`; on exit so are the
  // next one's, unless this was the tile's last: they are waited for while the tensor core works.
  // Of the units only the first `Live` are multiplied; the others just take their turns.
  template <bool Last, int Live>
  DEEPGEMM_DEVICE void step(float (&sum)[C.units()][C.accumulators()]) {
    const int stage = ring.stage;
    const Scales<C> current = scales;
    if constexpr (C.k_grouped() && Last) clear_neighbours(false, true);
#pragma unroll
    for (int unit = Live - C.units(); unit < Live; ++unit) {
      const bool live = unit >= 0, last_unit = unit == Live - 1;
      take_turn<C>(group);
      if (live) multiply<C>(operands, stage, unit);
      // Group 1 passed a turn before its first one, so its last one is owed to nobody.
      if (!(Last && last_unit && !more && group == 1)) pass_turn<C>(group);
      float factors[C.early_factors() ? C.accumulators() : 1];
      if constexpr (C.early_factors() && Live > 0) multiply_factors<C>(factors, current);
      if (last_unit) {
        ring.advance();
        if constexpr (!Last) fetch();
      }
      if (live) ptx::wgmma_wait();
      // Late factors per column are read from the stage until the last promotion.
      constexpr bool reads_stage = C.column_scales && !C.early_factors();
      if (last_unit && !reads_stage) release<C>(ring, stage, writer);
      if (live && C.early_factors()) {
        promote_by<C.group_columns()>(sum[unit], factors);
      } else if (live) {
        promote<C>(sum[unit], current, unit, near_columns);
      }
      if (last_unit && reads_stage) release<C>(ring, stage, writer);
    }
  }

  // All K blocks of a tile of which `live` units are multiplied.
  template <int Live = C.units()>
  DEEPGEMM_DEVICE void multiply_tile(float (&sum)[C.units()][C.accumulators()], int live) {
    if constexpr (Live > 0 && C.row_grouped()) {
      if (live < Live) return multiply_tile<Live - 1>(sum, live);
    }
    if constexpr (C.scaled()) {
#pragma unroll 1
      for (int kb = 0; kb < k_blocks - 1; ++kb) step<false, Live>(sum);
      step<true, Live>(sum);
    } else {
      accumulate_tile<Live>();
    }
  }

  // Without factors: the sums stay in WGMMA's accumulators over all of K, one K block is in flight
  // while the next one's WGMMAs are issued, and a stage is released when they have been.
  template <int Live>
  DEEPGEMM_DEVICE void accumulate_tile() {
    int stage = ring.stage;
#pragma unroll 1
    for (int kb = 0; kb < k_blocks; ++kb) {
      if (kb > 0) ring.wait_full();  // the first one's was waited for
      if constexpr (C.k_grouped()) clear_neighbours(kb == 0, kb == k_blocks - 1);
      if constexpr (Live > 0) {
        ptx::wgmma_fence();
        accumulate<C, 0>(operands, ring.stage, kb);
        if constexpr (Live > 1) accumulate<C, 1>(operands, ring.stage, kb);
        ptx::wgmma_commit();
        ptx::wgmma_wait<1>();
      }
      if (kb > 0) release<C>(ring, stage, writer);
      stage = ring.stage;
      ring.advance();
    }
    if constexpr (Live > 0) ptx::wgmma_wait();
    release<C>(ring, stage, writer);
  }

  // Adds C, whose blocks follow the tile's last K block in the ring, to the units chunk by chunk.
  template <int Chunk = 0>
  DEEPGEMM_DEVICE void add_c(float (&sum)[C.units()][C.accumulators()], int block = 0) {
    if constexpr (Chunk == 0) ring.wait_full();
    if constexpr (Chunk < C.units() * C.column_chunks()) {
      constexpr int column = Chunk / C.units(), unit = Chunk % C.units();
      const int chunk = column * C.row_chunks() + unit * C.consumers_m() + group;
      for (; block < chunk / C.c_block_chunks(); ++block) {
        pass_stage();
        ring.wait_full();
      }
      add_c_chunk<C, unit, column>(sum, ring.c(chunk % C.c_block_chunks()));
      add_c<Chunk + 1>(sum, block);
    } else {
      // Also a block without a chunk of this warpgroup is waited for: released before it was full,
      // it would count as its stage's use before.
      pass_stage();
      for (++block; block < C.c_blocks(); ++block) {
        ring.wait_full();
        pass_stage();
      }
    }
  }

  // Its sums; of units that were not multiplied anything. Why apart from accumulate_tile(): sums
  // that are read on some paths only would live beside the accumulators.
  DEEPGEMM_DEVICE void read_sums(float (&sum)[C.units()][C.accumulators()]) {
    read_partial<C.group_columns(), 0>(sum[0]);
    if constexpr (C.units() > 1) read_partial<C.group_columns(), 1>(sum[1]);
  }
};

template <GemmConfig C>
DEEPGEMM_DEVICE void consume(const GemmParams& p, u32 shared) {
  Consumer<C> consumer(shared, ptx::warp_index());
  ptx::declare_partials();
  float sum[C.units()][C.accumulators()] = {};
  OutPlace place{{},
                 shared + shared_map(C).out + consumer.group * C.staging_bytes(),
                 store_barrier + consumer.group};
  if constexpr (!C.grouped()) {
    if (!Raster<C>(p).valid()) return;
  }
  consumer.fetch_tile();
  if (consumer.k_blocks == 0) return;
  if (consumer.group == 1) pass_turn<C>(1);
#pragma unroll 1
  while (true) {
    if (consumer.has_no_k()) {
      consumer.pass_stage();
    } else {
      consumer.multiply_tile(sum, consumer.live_units());
      if (takes_c<C>()) consumer.add_c(sum);
      if constexpr (!C.scaled()) consumer.read_sums(sum);
    }
    if constexpr (C.cluster_k > 1) {
      if (!sum_over_cluster<C>(sum, shared)) return;
    }
    place.tile = consumer.tile;
    store_tile<C>(sum, p, place);
    if (!consumer.more) break;
    consumer.fetch_tile();
  }
  if constexpr (C.epilogue != Epilogue::general) {
    if (ptx::thread_index() % 128 == 0) ptx::tma_store_wait_read();
  }
}

}  // namespace deepgemm::device
