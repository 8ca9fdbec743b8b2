// The producer warp that fills everything that TMA brings.
#pragma once

#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "pipeline/ring.cuh"
#include "ptx/tma.cuh"
#include "scheduler/schedule.cuh"

namespace deepgemm::device {

// One box of a matrix, or of matrix `group` of a stack.
template <GemmConfig C>
DEEPGEMM_DEVICE void load_box(u32 destination, const TensorMap& map, int x, int y, int group,
                              u32 barrier, L2Policy policy) {
  if constexpr (C.stacked()) {
    ptx::tma_load_3d(destination, map, x, y, group, barrier, policy);
  } else {
    ptx::tma_load_2d(destination, map, x, y, barrier, policy);
  }
}

// How the rows of an operand's tile (of B: its columns) come.
struct BoxRule {
  int rows;       // of one box
  bool mn_major;  // boxes are [K, rows] in memory
  bool shared;    // with the other CTA of the cluster: each loads half and sends it to both
};

// How many of a tile's `all` rows, which begin at `first`, a stage brings: those before `end`, or
// whole boxes of `step` rows with them. What is multiplied in place of others gives sums that are
// not stored.
DEEPGEMM_DEVICE int rows_inside(int all, int first, int end, int step) {
  return max_of(0, min_of(all, ceil_div(end - first, step) * step));
}

// Loads an operand's tile from `row` on, of which `rows` come; the operand has `end`.
template <GemmConfig C, BoxRule Rule, int All>
DEEPGEMM_DEVICE void load_operand(u32 destination, const TensorMap& map, int k, int row, int end,
                                  int group, int rows, int rank, u32 barrier, L2Policy policy) {
  const bool inside = C.multicast() == 1 || row < end;  // a cluster's second tile may not be
  if constexpr (Rule.shared) {
    constexpr u16 both = 3;
    const int first = rank * Rule.rows;
    ptx::tma_load_2d_multicast(destination + first * stage_span, map, k, row + first, barrier, both,
                               policy);
  } else if constexpr (Rule.rows == All && !Rule.mn_major) {
    if (inside) load_box<C>(destination, map, k, row, group, barrier, policy);
  } else {
// Of row groups not: their boxes are small and many (128x128 tiles took 0.7 % longer).
#pragma unroll(Rule.mn_major ? All : 1)
    for (int first = 0; first < All; first += Rule.rows) {
      if (first == 0 ? !inside : first >= rows) continue;
      const int x = row + first;
      load_box<C>(destination + first * stage_span, map, Rule.mn_major ? x : k,
                  Rule.mn_major ? k : x, group, barrier, policy);
    }
  }
}

template <GemmConfig C>
DEEPGEMM_DEVICE constexpr BoxRule rule_of_a() {
  return {C.a_box_rows(), C.a_mn_major != 0, C.cluster_n > 1};
}
template <GemmConfig C>
DEEPGEMM_DEVICE constexpr BoxRule rule_of_b() {
  return {C.b_box_columns(), C.b_mn_major != 0, C.cluster_m > 1};
}

// What a stage of a tile brings: rows of A, columns of B, by which maps.
struct Brought {
  int rows, columns;
  const TensorMap* a;
  const TensorMap* b;
};
template <GemmConfig C>
DEEPGEMM_DEVICE Brought brought_for(const GemmParams& p, const Tile& tile) {
  constexpr BoxRule a = rule_of_a<C>(), b = rule_of_b<C>();
  constexpr int rows = C.tile_m, columns = C.b_columns();
  Brought brought = {rows, columns, &p.a, &p.b};
  if constexpr (C.row_grouped()) {  // behind a group's rows are its neighbour's
    brought.rows = rows_inside(rows, tile.row, tile.end, a.rows);
  } else if constexpr (C.a_has_edge()) {
    brought.rows = rows_inside(rows, tile.row, p.m, 1);
    brought.a = ptx::pinned(tile.row + rows > p.m ? &p.a_edge : &p.a);
  } else if constexpr (a.mn_major) {
    brought.rows = rows_inside(rows, tile.row, p.m, a.rows);
  }
  if constexpr (C.b_has_edge()) {
    brought.columns = rows_inside(columns, tile.column, p.n, 1);
    brought.b = ptx::pinned(tile.column + columns > p.n ? &p.b_edge : &p.b);
  } else if constexpr (b.mn_major) {
    brought.columns = rows_inside(columns, tile.column, p.n, b.rows);
  }
  return brought;
}

// B of a stage, whose full barrier this arms for all of it.
template <GemmConfig C>
DEEPGEMM_DEVICE void load_b(const GemmParams& p, const GemmRing<C>& ring, const Tile& tile, int kb,
                            int rank, const Brought& brought) {
  // Why a constant: a method of the config that takes what is known at run time reads the config
  // from global memory: six loads in front of each stage's first box.
  constexpr int factors = C.factor_bytes_by_tma();
  ptx::mbarrier_arm(ring.full(), (brought.rows + brought.columns) * stage_span + factors);
  load_operand<C, rule_of_b<C>(), C.b_columns()>(ring.b(), *brought.b, tile.k + kb * C.stage_k(),
                                                 tile.column, p.n, matrix_of_b<C>(p, tile),
                                                 brought.columns, rank, ring.full(), p.b_policy);
}
// The rest of it.
template <GemmConfig C>
DEEPGEMM_DEVICE void load_a(const GemmParams& p, const GemmRing<C>& ring, const Tile& tile, int kb,
                            int rank, const Brought& brought) {
  const u32 full = ring.full();
  const int matrix = matrix_of_a<C>(p, tile);
  load_operand<C, rule_of_a<C>(), C.tile_m>(ring.a(), *brought.a, tile.k + kb * C.stage_k(),
                                            tile.row, p.m, matrix, brought.rows, rank, full,
                                            p.a_policy);
  if constexpr (C.scaled() && C.scales_by_tma) {
    constexpr L2Policy normal = L2Policy::evict_normal;
    const int block = tile.block + kb;
    load_box<C>(ring.sfa(), p.sfa, tile.row, block, matrix, full, normal);
    if constexpr (C.column_scales) {
      load_box<C>(ring.sfb(), p.sfb, tile.column, block, matrix_of_b<C>(p, tile), full, normal);
    }
  }
}

// C of a tile, behind its K blocks.
template <GemmConfig C>
DEEPGEMM_DEVICE void load_c(const GemmParams& p, GemmRing<C>& ring, const Tile& tile, bool issues) {
#pragma unroll 1
  for (int first = 0; first < C.c_chunks(); first += C.c_block_chunks()) {
    ring.acquire();
    if (issues) {
      const int chunks = min_of(C.c_block_chunks(), C.c_chunks() - first);
      ptx::mbarrier_arm(ring.full(), chunks * C.chunk_bytes());
#pragma unroll 1
      for (int i = 0; i < chunks; ++i) {
        const int column = (first + i) / C.row_chunks(), row = (first + i) % C.row_chunks();
        load_box<C>(ring.c(i), p.c, tile.column + column * C.chunk_columns(),
                    tile.row + row * unit_rows, matrix_of_out<C>(p, tile), ring.full(),
                    L2Policy::evict_normal);
      }
    }
    ring.advance();
  }
}

// Under programmatic dependent launch, with a constant B: B of the first tile's first stages while
// the previous kernel still runs. Returns how many.
template <GemmConfig C>
DEEPGEMM_DEVICE int load_b_ahead(const GemmParams& p, GemmRing<C> ring, const KRange& range,
                                 const Tile& tile, int rank, bool issues) {
  if (!p.constant_b) return 0;
  const int ahead = min_of(range.count, static_cast<int>(C.stages));
  const Brought brought = brought_for<C>(p, tile);
#pragma unroll 1
  for (int i = 0; i < ahead; ++i, ring.advance()) {
    if (issues) load_b<C>(p, ring, tile, range.first + i, rank, brought);
  }
  return ahead;
}

// K blocks of a tile, with their B unless that is on its way.
template <GemmConfig C, bool WithB>
DEEPGEMM_DEVICE void produce_k_blocks(const GemmParams& p, GemmRing<C>& ring, const Tile& tile,
                                      int first, int end, int rank, const Brought& brought,
                                      bool issues) {
#pragma unroll 1
  for (int kb = first; kb < end; ++kb) {
    ring.acquire();
    if (issues && C.k_grouped() && tile.end == 0) {
      ptx::mbarrier_arrive(ring.full());  // nothing to bring
    } else if (issues) {
      if constexpr (WithB) load_b<C>(p, ring, tile, kb, rank, brought);
      load_a<C>(p, ring, tile, kb, rank, brought);
    }
    ring.advance();
  }
}

// The maps of the first tile's operands. A tile outside of D may choose one that is not there.
template <GemmConfig C>
DEEPGEMM_DEVICE void prefetch_operand_maps(const GemmParams& p, const Brought& first) {
  if (first.columns > 0) ptx::prefetch_tensor_map(*first.b);
  if (first.rows > 0) ptx::prefetch_tensor_map(*first.a);
  if constexpr (C.scaled() && C.scales_by_tma) ptx::prefetch_tensor_map(p.sfa);
  if constexpr (C.scales_by_tma && C.column_scales) ptx::prefetch_tensor_map(p.sfb);
}

// One lane makes the CTA's barriers; the others wait for them. The producer waits for nobody,
// unless it writes into a peer.
template <GemmConfig C>
DEEPGEMM_DEVICE void start_cta(const GemmRing<C>& ring, u32 shared, bool issues) {
  if (issues) {
    ring.init(C.full_arrivals(), C.empty_arrivals());
    if constexpr (C.grouped()) TileRing<C>(shared).init(1, 2 + C.factor_warps());
  }
  ptx::sync_warp();
  if constexpr (C.multicast() > 1) {
    ptx::cluster_sync();
  } else {
    if constexpr (C.cluster_k > 1) ptx::cluster_arrive_relaxed();
    ptx::named_barrier_arrive(start_barrier, C.threads());
  }
  ptx::let_next_kernel_start();
}

// Run by one warp. Why the whole warp loops and one lane issues: the loop then stays uniform.
template <GemmConfig C>
DEEPGEMM_DEVICE void produce_operands(const GemmParams& p, u32 shared) {
  GemmRing<C> ring(ptx::pinned(shared));
  const bool issues = ptx::elect_one();
  const KRange common = k_range<C>(p);
  Tile tile;
  if constexpr (C.grouped()) {
    start_cta<C>(ring, shared, issues);
    ptx::wait_for_previous_kernel();
  } else {
    // Before the barriers, so that the first reads of parameters and maps take no time of their
    // own.
    tile = Raster<C>(p).tile();
    const Brought first = brought_for<C>(p, tile);
    if (issues) prefetch_operand_maps<C>(p, first);
    start_cta<C>(ring, shared, issues);
  }
  TileSchedule<C> raster = tiles_of<C>(p, shared);
  if (C.grouped() && raster.valid()) tile = raster.tile();
  int ahead = 0;
  if constexpr (!C.grouped()) {
    if (raster.valid()) ahead = load_b_ahead<C>(p, ring, common, tile, raster.rank, issues);
    ptx::wait_for_previous_kernel();
  }
  if (C.grouped() && !raster.valid() && issues) ptx::mbarrier_arrive(ring.full());
#pragma unroll 1
  while (raster.valid()) {
    const KRange range = range_of<C>(tile, common);
    const Brought brought = brought_for<C>(p, tile);
    const int first = range.first + ahead, end = range.first + range.count;
    produce_k_blocks<C, false>(p, ring, tile, range.first, first, raster.rank, brought, issues);
    produce_k_blocks<C, true>(p, ring, tile, first, end, raster.rank, brought, issues);
    ahead = 0;  // of the first tile
    if (takes_c<C>()) load_c<C>(p, ring, tile, issues);
    raster.advance();
    if (raster.valid()) tile = raster.tile();
  }
}

}  // namespace deepgemm::device
