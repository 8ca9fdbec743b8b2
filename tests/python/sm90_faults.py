"""Planted faults: one-line mutations of the device sources that the modelled SM90 must catch."""

from __future__ import annotations

from dataclasses import dataclass

BIG, SMALL = "256x128 cluster 1x2 ordered", "64x64"
WIDE, SPLIT = "128x192 cluster 2x1", "64x64 K split in 2"
SIXTEEN = "decode 16 tokens, (2, 2, 2, 1, 2)"
DECODE, CLUSTERED = "decode 8 tokens, (1, 2, 3, 1, 3)", "decode 8 tokens, (2, 2, 3, 4, 2)"
ADDS_C, ADDS_D = "128x128, adds C", "128x128, adds to D"
DEPENDENT_DECODE, DEPENDENT_TILES = "decode, dependent launch", "tiles, dependent launch"
COLUMNS, STRIDED = "256x128 cluster 1x2 ordered, factors per column", "128x128, strided factors"


@dataclass(frozen=True)
class Fault:
    """`old` becomes `new` in `file`; the case `case` must then fail, with `report` in its words."""

    name: str
    case: str
    file: str
    old: str
    new: str
    report: str = ""  # empty: a wrong result is enough

    @property
    def wish(self) -> str:
        """What SM90_MODEL_MUTATE is set to."""
        return "@@".join((self.file, self.old, self.new))


RING, CONSUMER = "pipeline/ring.cuh", "pipeline/consumer.cuh"
PRODUCER, STORE = "pipeline/producer.cuh", "epilogue/store.cuh"
CONFIG, MULTIPLY = "common/gemm_config.cuh", "mma/multiply.cuh"
SUM, WARPS = "epilogue/cluster_sum.cuh", "scale/scale_warps.cuh"
GEMM, FEW = "kernels/gemm.cuh", "kernels/decode.cuh"
GROUPED, ROWS = "kernels/general_grouped.cuh", "grouped, 128x128"

BF16 = "bfloat16 64x64"

FAULTS = (
    # The ring
    Fault("producer waits for the wrong phase", BIG, RING, "phase ^ 1);", "phase);", "deadlock"),
    Fault("consumer does not wait for the stage", SMALL, RING,
          "ptx::mbarrier_wait(full(), phase);", "", "never written"),
    Fault("consumer waits for the phase before", SMALL, RING,
          "ptx::mbarrier_wait(full(), phase);", "ptx::mbarrier_wait(full(), phase ^ 1);"),
    Fault("barriers without a fence", SMALL, RING, "ptx::mbarrier_init_fence();", "",
          "without a fence"),
    Fault("an arrival of the full barrier too few", SMALL, CONFIG, "scales_by_tma ? 2 : 4",
          "scales_by_tma ? 1 : 4"),
    Fault("an arrival of the full barrier too many", SMALL, CONFIG, "scales_by_tma ? 2 : 4",
          "scales_by_tma ? 3 : 4", "deadlock"),
    Fault("an arrival of the empty barrier too few", BIG, CONFIG,
          "return consumers * warps_per_group * ring_writers();",
          "return consumers * warps_per_group * ring_writers() - 1;"),
    Fault("a warp of the peer is not counted", WIDE, CONFIG,
          "return consumers * warps_per_group * ring_writers();",
          "return consumers * warps_per_group;"),
    Fault("armed for a row too many", SMALL, CONFIG, "return a_rows * stage_span + b_bytes() + (",
          "return a_rows * stage_span + b_bytes() + 128 + (", "deadlock"),
    Fault("armed for a row too few", SMALL, CONFIG, "return a_rows * stage_span + b_bytes() + (",
          "return a_rows * stage_span + b_bytes() - 128 + ("),
    Fault("arrives without arming", SMALL, PRODUCER,
          "ptx::mbarrier_arm(ring.full(), C.stage_transaction_bytes(boxes_a * C.a_box_rows()));",
          "ptx::mbarrier_arrive(ring.full());", "bytes more than it was armed for"),
    Fault("phase does not turn", BIG, RING, "phase ^= 1;", "phase ^= 0;"),
    # WGMMA
    Fault("accumulators are read too early", SMALL, CONSUMER, "ptx::wgmma_wait();",
          "ptx::wgmma_wait<1>();", "before the wait for its WGMMA group"),
    Fault("no fence before WGMMA", SMALL, MULTIPLY, "  ptx::wgmma_fence();", "",
          "WGMMA without wgmma.fence"),
    Fault("no commit after WGMMA", SMALL, MULTIPLY, "  ptx::wgmma_commit();", ""),
    Fault("the stage is released before its WGMMA is over", BIG, CONSUMER,
          "      if (live) ptx::wgmma_wait();",
          "      if (last_unit && !C.column_scales) release<C>(ring, stage, writer);\n"
          "      if (live) ptx::wgmma_wait();"),
    Fault("decode reads the second slot too early", DECODE, FEW, "ptx::wgmma_wait<0>();", "",
          "before the wait for its WGMMA group"),
    Fault("rows of a matrix descriptor too near", SMALL, MULTIPLY, "8 * 128 / 16", "4 * 128 / 16"),
    Fault("K step of a descriptor too short", SMALL, MULTIPLY, "constexpr int k_step = 32 / 16;",
          "constexpr int k_step = 16 / 16;"),
    # Factors and the schedule
    Fault("row factors of another stage", SMALL, "scale/promote.cuh",
          "const u32 rows = ring.sfa() + row_in_tile * 4;",
          "const u32 rows = ring.shared + GemmRing<C>::map.sfa + row_in_tile * 4;"),
    Fault("factors of the K block before", SMALL, WARPS, "ptx::shuffle(scales.near, i)",
          "ptx::shuffle(scales.near, i > 0 ? i - 1 : 0)"),
    Fault("a shuffle in divergent code", SMALL, WARPS,
          "const float near = ptx::shuffle(scales.near, i)",
          "const float near = ptx::lane_index() == 31 ? 0.0f : ptx::shuffle(scales.near, i)",
          "divergent"),
    Fault("a tile is computed twice and its neighbour not at all", SMALL, "scheduler/raster.cuh",
          "(rest - outer * width);", "(rest - outer * width) / 2 * 2;"),
    Fault("strided factors arrive before they are stored", STRIDED, WARPS,
          "      ptx::sync_warp();\n", ""),
    Fault("column factors of a stage that was given back", COLUMNS, CONSUMER,
          "      constexpr bool reads_stage = C.column_scales && !C.early_factors();",
          "      constexpr bool reads_stage = false;"),
    # Clusters
    Fault("a multicast that misses the peer", BIG, PRODUCER, "constexpr u16 both = 3;",
          "constexpr u16 both = 1;", "deadlock"),
    Fault("a CTA leaves while its peer may still write", BIG, GEMM,
          "    ptx::sync_warp();\n    ptx::cluster_sync();", "    ptx::sync_warp();", "exited"),
    Fault("sums are read before they are sent", SPLIT, SUM,
          "  ptx::cluster_arrive();\n  ptx::cluster_wait();\n", ""),
    Fault("decode's fragments are read before they are sent", CLUSTERED, FEW,
          "      ptx::cluster_arrive();\n      ptx::cluster_wait();\n", ""),
    Fault("decode's ring starts in the wrong phase", DECODE, FEW, "ring.phase = 1;",
          "ring.phase = 0;"),
    Fault("decode gives a stage back too early", DECODE, FEW,
          "ring.init(1, C.consumers * warps_per_group);",
          "ring.init(1, C.consumers * warps_per_group - 1);"),
    Fault("decode writes to a peer that may not have started", CLUSTERED, FEW,
          "    if constexpr (C.cluster_k > 1) ptx::cluster_wait();\n", ""),
    Fault("decode's fragments are sent without a release", CLUSTERED, FEW,
          "      ptx::cluster_arrive();\n      ptx::cluster_wait();\n",
          "      ptx::cluster_arrive_relaxed();\n      ptx::cluster_wait();\n", "not released"),
    Fault("sums are sent without a release", SPLIT, SUM, "  ptx::cluster_arrive();",
          "  ptx::cluster_arrive_relaxed();", "not released"),
    Fault("a peer of a multicast may not have started", BIG, GEMM,
          "  if constexpr (C.cluster() > 1) {\n    ptx::cluster_sync();",
          "  if constexpr (C.cluster() > 1) {\n    ptx::sync_cta();", "may not have started"),
    Fault("a multicast to CTAs that are not there", BIG, PRODUCER, "constexpr u16 both = 3;",
          "constexpr u16 both = 15;", "not there"),
    # Tails
    Fault("the second 32 factors of a tile are the first", "64x64, K of 35 blocks", WARPS,
          "same_tile ? first + 32 : 0, common);", "0, common);"),
    Fault("a group of tiles wider than what is left", "64x64, 143 tiles", "scheduler/raster.cuh",
          "min_of(group, inner_extent - which * group)", "group"),
    Fault("a warpgroup beside takes its neighbour's scale block", "128x192, side by side",
          "scale/promote.cuh",
          "scale_block_n - tile_column % scale_block_n - group % C.consumers_n * C.group_columns()",
          "scale_block_n - tile_column % scale_block_n"),
    Fault("factors past the last row", "64x32, strided factors per column", WARPS,
          "if (i * 64 + lane_row < Lines)", ""),
    Fault("decode stores past an odd N", SIXTEEN,
          "epilogue/store_swapped.cuh", "if (n + 1 < p.n) {", "if (true) {"),
    Fault("fragments are read before the warpgroup has them", SIXTEEN, FEW,
          "ptx::named_barrier_sync(1 + group, 128);", ""),
    Fault("a slot is reused while it is read", "quantize", "kernels/quantize.cuh",
          "    ptx::sync_cta();\n    ptx::store_shared_f32(slots",
          "    ptx::store_shared_f32(slots"),
    # The epilogue
    Fault("no proxy fence before a TMA store", SMALL, STORE,
          "    ptx::fence_async_proxy();\n    ptx::named_barrier_sync(place.barrier, 128);",
          "    ptx::named_barrier_sync(place.barrier, 128);", "fence.proxy.async"),
    Fault("sent before the other warps have staged", SMALL, STORE,
          "    ptx::fence_async_proxy();\n    ptx::named_barrier_sync(place.barrier, 128);",
          "    ptx::fence_async_proxy();"),
    Fault("staged over a store that still reads", SMALL, STORE,
          "    if (sender) ptx::tma_store_wait_read();", "", "still being read"),
    Fault("leaves with stores in flight", SMALL, CONSUMER,
          "if (ptx::thread_index() % 128 == 0) ptx::tma_store_wait_read();", "", "exited while"),
    Fault("staged without the swizzle", SMALL, STORE,
          "ptx::store_matrix_x4(chunk + swizzled(offset, C.chunk_span()),",
          "ptx::store_matrix_x4(chunk + offset,"),
    Fault("C is sent before it is added", ADDS_C, STORE,
          "      ptx::mbarrier_wait(added, parts & 1);", ""),
    Fault("C is added before it has arrived", ADDS_C, STORE,
          "    ptx::mbarrier_wait(shared + map.c_full + group * 8, (place.parts + i) & 1);", ""),
    Fault("no proxy fence after adding C", ADDS_C, STORE,
          "    ptx::fence_async_proxy();\n    ptx::mbarrier_arrive(shared + map.c_added",
          "    ptx::mbarrier_arrive(shared + map.c_added", "fence.proxy.async"),
    Fault("added twice", ADDS_D, STORE, "ptx::tma_add_2d(p.out, column, row, source);",
          "ptx::tma_add_2d(p.out, column, row, source), "
          "ptx::tma_add_2d(p.out, column, row, source);"),
    # Dependent launches
    Fault("decode reads before the previous kernel is over", DEPENDENT_DECODE, FEW,
          "  if (!p.constant_b) ptx::wait_for_previous_kernel();", ""),
    Fault("decode reads tokens ahead of the wait", DEPENDENT_DECODE, FEW,
          "  if (!p.constant_b) return;\n  ptx::wait_for_previous_kernel();",
          "  if (!p.constant_b) return;"),
    Fault("decode reads factors ahead of the wait", DEPENDENT_DECODE, FEW,
          "  ptx::wait_for_previous_kernel();\n  if constexpr (C.scaled())",
          "  if constexpr (C.scaled())"),
    Fault("tiles are loaded ahead of the wait", DEPENDENT_TILES, PRODUCER,
          "  ptx::wait_for_previous_kernel();", ""),
    # 16-bit operands
    Fault("BF16: a stage is released while it is multiplied", BF16, CONSUMER,
          "if (kb > 0) release<C>(ring, stage, writer);",
          "release<C>(ring, ring.stage, writer);"),
    Fault("BF16: sums are read before the last WGMMA is complete", BF16, CONSUMER,
          "    if constexpr (Live > 0) ptx::wgmma_wait();\n", "", "wait"),
    Fault("BF16: a tile's sums begin with the last one's", BF16, CONSUMER,
          "accumulate<C, 0>(operands, ring.stage, kb);",
          "accumulate<C, 0>(operands, ring.stage, 1);"),
    Fault("BF16: the second unit's sums are the first's", "bfloat16 256x128", CONSUMER,
          "read_partial<C.group_columns(), 1>(sum[1])",
          "read_partial<C.group_columns(), 0>(sum[1])"),
    Fault("BF16: 64 columns of an N-major B lie beside others", "float16 128x128", MULTIPLY,
          "| next_rows << 16", "| u64{1} << 16"),
    Fault("BF16: an N-major B goes on along K by bytes of a row", "float16 128x128", MULTIPLY,
          "constexpr u64 step_b = (MnMajorB ? 16 * stage_span : 32) / 16;",
          "constexpr u64 step_b = 32 / 16;"),
    Fault("BF16: C is added as bits", "bfloat16 128x128 adds bfloat16 C", STORE,
          "unpack_pair<C.out_type>(x, y, ptx::load_shared_u32(address));",
          "x = y = 0, ptx::load_shared_u32(address);"),
    Fault("BF16: decode's sums begin anywhere", "bfloat16 decode 8 tokens", FEW,
          "block == 0 ? i : 1", "1"),
    Fault("BF16: decode releases a stage that it multiplies", "bfloat16 decode 8 tokens", FEW,
          "if (i > 0) release_stage(ring, stage);", "release_stage(ring, ring.stage);"),
    # Threads
    Fault("named barriers of two purposes share a number", BIG, CONSUMER,
          "inline constexpr int turn_barrier = 4;", "inline constexpr int turn_barrier = 1;"),
    Fault("producers keep their registers", BIG, GEMM,
          "    ptx::lower_registers<C.producer_registers()>();", "", "registers"),
    Fault("panels are read before they are filled", "general", "kernels/general_gemm.cuh",
          "    load_panel(panel_b, p.b, first_column, p.n, k, p.k);\n    ptx::sync_cta();",
          "    load_panel(panel_b, p.b, first_column, p.n, k, p.k);"),
    Fault("a maximum is read before all warps have it", "quantize", "kernels/quantize.cuh",
          "    ptx::store_shared_f32(slots + ptx::warp_index() * 4, float_from_bits(value));\n"
          "    ptx::sync_cta();",
          "    ptx::store_shared_f32(slots + ptx::warp_index() * 4, float_from_bits(value));"),
    # Groups
    Fault("the next tile's panels overwrite sums", "grouped, general", GROUPED,
          "    ptx::sync_cta();  // the panels hold sums", "    // the panels hold sums"),
    Fault("rows are not clipped at their group's end", "grouped, general", GROUPED,
          "    own.m = tile.end;", ""),
    Fault("a run of labels is not clipped at its end", "labels, general", GROUPED,
          "    own.m = tile.end;", ""),
    Fault("bias of the first group for all", "grouped, general", GROUPED,
          "move_to_group(e, group * p.bias_group, ", "move_to_group(e, 0, "),
    Fault("factors of the first group for all", "masked, general", GROUPED,
          "advance(own.a, group * p.a_group, group * p.sfa_group);",
          "advance(own.a, group * p.a_group, 0);"),
    Fault("c of the first group for all", "masked, general", GROUPED,
          "p.bias_group, group * p.c_group);", "p.bias_group, 0);"),
    Fault("blocks of factors counted over all of K", "k grouped, general", GROUPED,
          "advance(own.b, tile.k * own.b.k, tile.block * own.b.sf_k);",
          "advance(own.b, tile.k * own.b.k, tile.k / 128 * own.b.sf_k);"),
    Fault("a group's slice does not end", "k grouped, general", GROUPED,
          "static_cast<i64>(tile.k_end - tile.k)", "p.product.k - tile.k"),
    Fault("a CTA takes its neighbour's tiles", "labels, general", GROUPED,
          "Walk walk(p.groups, general_tiling(p), ptx::cta_index(), ptx::cta_count());",
          "Walk walk(p.groups, general_tiling(p), ptx::cta_index(), ptx::cta_count() + 1);"),
    Fault("FP8: rows of the next group are copied too", ROWS, STORE,
          "m < place.tile.end && first_column", "m < place.tile.end + 3 && first_column"),
    Fault("FP8: TMA stores a tile that another group shares", ROWS, STORE,
          "if (!has_whole_units<C>(place.tile, first)) {",
          "if (place.tile.row >= place.tile.end) {"),
    Fault("FP8: rows are copied before the warp has staged them", ROWS, STORE,
          "  ptx::sync_warp();\n#pragma unroll 1\n  for (int i = 0; i < C.units_per_store()",
          "#pragma unroll 1\n  for (int i = 0; i < C.units_per_store()"),
    Fault("FP8: the general epilogue does not clip at the group's end", "masked, 64x64", STORE,
          "end = min_of(tile.end, p.m);", "end = p.m;"),
    Fault("FP8: b of the first group for all", ROWS, PRODUCER,
          "tile.column, matrix_of_b<C>(tile),\n", "tile.column, 0,\n"),
    Fault("FP8: factors of b of the first group for all", ROWS, WARPS,
          "address += group * p.groups.sfb;", ""),
    Fault("FP8: column factors of b of the first group for all", "masked, 64x64", PRODUCER,
          "block, matrix_of_b<C>(tile), full, normal", "block, 0, full, normal"),
    Fault("FP8: groups are read before the kernel before is complete",
          "grouped, dependent launch", PRODUCER,
          "if constexpr (C.grouped()) ptx::wait_for_previous_kernel();", ""),
    Fault("FP8: a of the first group for all", "masked, 128x128", PRODUCER,
          "const int matrix = matrix_of_a<C>(p, tile);", "const int matrix = 0;"),
    Fault("FP8: out of the first group for all", "masked, 128x128", STORE,
          "ptx::tma_store_3d(p.out, column, row, matrix_of_out<C>(p, place.tile), source);",
          "ptx::tma_store_3d(p.out, column, row, 0, source);"),
    Fault("FP8: a group's K begins with the array's", "k grouped, 64x64", PRODUCER,
          "ring.a(), p.a, tile.k + kb * C.stage_k(), tile.row",
          "ring.a(), p.a, kb * C.stage_k(), tile.row"),
    Fault("FP8: a group's factors begin with the array's", "k grouped, 64x64", PRODUCER,
          "const int block = tile.block + kb;", "const int block = kb;"),
    Fault("FP8: K of the next group is multiplied", "k grouped, 128x128", CONSUMER,
          "    if constexpr (C.k_grouped() && Last) clear_past_group();", ""),
    Fault("FP8: zeros that WGMMA may not see", "k grouped, 64x64", CONSUMER,
          "    ptx::fence_async_proxy();\n    ptx::named_barrier_sync(clear_barrier",
          "    ptx::named_barrier_sync(clear_barrier", "fence.proxy.async"),
    Fault("FP8: WGMMA before all have written zeros", "k grouped, 128x128", CONSUMER,
          "    ptx::named_barrier_sync(clear_barrier, C.consumers * 128);", ""),
    Fault("FP8: the stage of a group without K is not given back", "k grouped, 64x64", CONSUMER,
          "    release<C>(ring, ring.stage, writer);\n    ring.advance();", "    ring.advance();",
          "deadlock"),
    Fault("FP8: K of a lying vector begins between 16 bytes", "k grouped, sizes that lie",
          "scheduler/schedule.cuh", "tile.k & -16", "tile.k", "no multiple of 16 bytes"),
    Fault("FP8: nothing arrives for a group without K", "k grouped, 64x64", PRODUCER,
          "        ptx::mbarrier_arrive(ring.full());  // nothing to bring", "", "deadlock"),
)  # fmt: skip
