// How one GEMM kernel of the pipeline computes: plain data, the JIT key, and the template argument
// of the kernel. Host and device derive every size from it here, so that a budget cannot differ
// between them.
#pragma once

#include "common/elements.cuh"
#include "common/types.cuh"

namespace deepgemm::device {

inline constexpr int stage_span = 128;     // bytes of K per stage: one swizzle span
inline constexpr int block_k = 128;        // K of a scale block: a stage of FP8
inline constexpr int scale_block_n = 128;  // columns of B that share a scale factor
inline constexpr int unit_rows = 64;       // rows of one WGMMA
inline constexpr int warps_per_group = 4;
enum class Epilogue : u8 {
  store,       // cast, and leave by TMA
  reduce,      // FP32, added to D by TMA: C is D
  accumulate,  // sums plus C, which follows the tile's K blocks through the ring
  general,     // alpha, bias, activation, c, out_scale; plain stores to any address and pitch
};
// Which tiles there are: all of D; those of the rows of each group, from a vector that the kernel
// reads (common/group_vector.cuh), of any form but labels, or of labels; or all of a D for each
// group, over its slice of K (k_groups).
enum class Schedule : u8 { dense, groups, labels, k_groups };
inline constexpr int max_shared_bytes = 232448;  // 227 KB, the opt-in limit of SM90

struct GemmConfig;
// Byte offsets of a CTA's shared memory; every part of the ring holds `stages` pieces in a row.
struct SharedMap {
  int a, b, out, reduction, sfa, sfb, header, tiles, full, empty, tile_full, tile_empty, sent;
  int total;
};
DEEPGEMM_SHARED_CODE constexpr SharedMap shared_map(const GemmConfig& c, int staging_bytes);

// How much of a warpgroup's D is staged at once: so many units, or one of so many parts of a unit.
struct StoreShape {
  int units, parts;
};

// No padding bytes: the object's bytes are its key.
struct GemmConfig {
  u16 tile_m = 128, tile_n = 128;
  u8 consumers = 2;    // consumer warpgroups, stacked along M unless ...
  u8 consumers_n = 1;  // ... this many of them lie side by side along N
  u8 stages = 4;
  u8 cluster_m = 1;  // CTAs of a cluster along M: they share B by multicast
  u8 cluster_n = 1;  // along N: they share A
  u8 cluster_k = 1;  // CTAs of a cluster that share a tile, each with a part of K
  u8 ordered = 0;    // the two consumer warpgroups take turns to issue WGMMA
  ElementType a_type = ElementType::e4m3, b_type = ElementType::e4m3;
  ElementType out_type =
      ElementType::bf16;  // with the general epilogue: f32, and known at run time
  u8 column_scales = 0;   // factors of B: one per column and 128 of K, else per 128 columns
  u8 scales_by_tma = 1;   // else warps of the producer group load them, with any strides
  Epilogue epilogue = Epilogue::store;
  Schedule schedule = Schedule::dense;
  // 16-bit operands: whether the rows of A, the columns of B are contiguous, else K is.
  u8 a_mn_major = 0, b_mn_major = 0;

  // FP8 has scale factors, and is promoted with them once a stage. 16-bit operands have none: their
  // sums stay in the accumulators of WGMMA.
  DEEPGEMM_SHARED_CODE constexpr bool scaled() const { return bytes_of(a_type) == 1; }
  // K per stage.
  DEEPGEMM_SHARED_CODE constexpr int stage_k() const { return stage_span / bytes_of(a_type); }

  DEEPGEMM_SHARED_CODE constexpr bool grouped() const { return schedule != Schedule::dense; }
  DEEPGEMM_SHARED_CODE constexpr bool k_grouped() const { return schedule == Schedule::k_groups; }
  // Operands and D are stacks of matrices: one for each group, or for each item of a batch.
  DEEPGEMM_SHARED_CODE constexpr bool stacked() const { return grouped() || !scaled(); }
  DEEPGEMM_SHARED_CODE constexpr bool row_grouped() const { return grouped() && !k_grouped(); }
  DEEPGEMM_SHARED_CODE constexpr int threads() const { return (consumers + 1) * 128; }
  DEEPGEMM_SHARED_CODE constexpr int multicast() const { return cluster_m * cluster_n; }
  DEEPGEMM_SHARED_CODE constexpr int cluster() const { return multicast() * cluster_k; }
  // CTAs that write into one CTA's ring, itself included.
  DEEPGEMM_SHARED_CODE constexpr int ring_writers() const { return cluster_m + cluster_n - 1; }
  // What one consumer warpgroup owns of the tile: units of 64 rows, dealt out in turn along M, so
  // that a tile with few rows of a group is shared evenly.
  DEEPGEMM_SHARED_CODE constexpr int consumers_m() const { return consumers / consumers_n; }
  DEEPGEMM_SHARED_CODE constexpr int group_columns() const { return tile_n / consumers_n; }
  DEEPGEMM_SHARED_CODE constexpr int units() const { return tile_m / unit_rows / consumers_m(); }
  DEEPGEMM_SHARED_CODE constexpr int unit_pitch() const { return consumers_m() * unit_rows; }
  DEEPGEMM_SHARED_CODE constexpr int accumulators() const { return group_columns() / 2; }

  // Bytes of one stage.
  DEEPGEMM_SHARED_CODE constexpr int a_bytes() const { return tile_m * stage_span; }
  DEEPGEMM_SHARED_CODE constexpr int b_bytes() const { return b_columns() * stage_span; }
  // Columns of B in a stage. An N-major B comes in boxes of 64, the last one also where the tile
  // has fewer.
  DEEPGEMM_SHARED_CODE constexpr int b_columns() const {
    return b_mn_major ? ceil_div<int>(tile_n, unit_rows) * unit_rows : tile_n;
  }
  DEEPGEMM_SHARED_CODE constexpr int sfa_bytes() const { return scaled() ? tile_m * 4 : 0; }
  DEEPGEMM_SHARED_CODE constexpr int sfb_bytes() const { return column_scales ? tile_n * 4 : 0; }
  // Bytes of factors that the full barrier counts.
  DEEPGEMM_SHARED_CODE constexpr int factor_bytes_by_tma() const {
    return scales_by_tma ? sfa_bytes() + sfb_bytes() : 0;
  }
  // Rows of A in one TMA box. Of a group's tile only the boxes with rows of the group are brought.
  DEEPGEMM_SHARED_CODE constexpr int a_box_rows() const {
    if (a_mn_major) return unit_rows;
    if (row_grouped()) return tile_m > unit_rows ? unit_rows : unit_rows / 2;
    return tile_m / cluster_n;
  }
  DEEPGEMM_SHARED_CODE constexpr int b_box_columns() const {
    return b_mn_major ? unit_rows : tile_n / cluster_m;
  }
  // Whether the last tile's rows of A, columns of B come in a box of their own: TMA fills what lies
  // outside with zeros, but takes 6 clocks for such a row, 2.4 for one inside. Not for 16-bit
  // groups of K: clear_k_major() reads what it zeroes in part, in all rows.
  DEEPGEMM_SHARED_CODE constexpr bool a_has_edge() const {
    return !a_mn_major && cluster_n == 1 && !row_grouped() && (scaled() || !k_grouped());
  }
  DEEPGEMM_SHARED_CODE constexpr bool b_has_edge() const {
    return !b_mn_major && cluster_m == 1 && (scaled() || !k_grouped());
  }
  // Of those boxes the rows, columns; 0: there is none. Extents are TMA coordinates, so 32 bits.
  DEEPGEMM_SHARED_CODE constexpr int a_edge_rows(i64 m) const {
    return a_has_edge() ? static_cast<int>(static_cast<u32>(m) % tile_m) : 0;
  }
  DEEPGEMM_SHARED_CODE constexpr int b_edge_columns(i64 n) const {
    return b_has_edge() ? static_cast<int>(static_cast<u32>(n) % tile_n) : 0;
  }
  // Where a group's part of K may be loaded from, for k_groups: TMA's innermost coordinate is a
  // multiple of 16 bytes.
  DEEPGEMM_SHARED_CODE constexpr int k_align() const {
    return a_mn_major && b_mn_major ? 1 : 16 / bytes_of(a_type);
  }
  // Where the tiles of a group of rows may start: four factors are the 16 bytes that TMA wants.
  DEEPGEMM_SHARED_CODE constexpr int row_align() const {
    return row_grouped() && scaled() && scales_by_tma ? 4 : 1;
  }

  // D is staged in chunks of 64 rows by as many columns as one swizzle span holds: in its own type
  // for TMA, in FP32 for the general epilogue.
  DEEPGEMM_SHARED_CODE constexpr int staged_bytes() const { return bytes_of(out_type); }
  DEEPGEMM_SHARED_CODE constexpr int chunk_span() const {
    const int row_bytes = group_columns() * staged_bytes();
    return row_bytes % 128 == 0 ? 128 : row_bytes % 64 == 0 ? 64 : 32;
  }
  DEEPGEMM_SHARED_CODE constexpr int chunk_columns() const { return chunk_span() / staged_bytes(); }
  DEEPGEMM_SHARED_CODE constexpr int chunk_bytes() const { return unit_rows * chunk_span(); }
  DEEPGEMM_SHARED_CODE constexpr int column_chunks() const {
    return group_columns() / chunk_columns();
  }
  DEEPGEMM_SHARED_CODE constexpr int staging_bytes(const StoreShape& s) const {
    return s.units * unit_rows * group_columns() / s.parts * staged_bytes();
  }
  // A number of equal parts of whole chunks: at least `least`, which is at most column_chunks().
  DEEPGEMM_SHARED_CODE constexpr int parts_of_chunks(int least) const {
    int parts = least;
    while (column_chunks() % parts != 0) ++parts;
    return parts;
  }
  // Two copies of the general epilogue spilled 104 bytes when consumers still walked.
  DEEPGEMM_SHARED_CODE constexpr bool stores_whole_units() const {
    return row_grouped() && epilogue == Epilogue::general;
  }
  // With 16-bit D of FP8 all units at once, with FP32 one at a time, so that both need the same
  // room. Why: a stage of the ring is worth more than a second half of D. 16-bit operands have no
  // factors in the ring: D of one unit leaves room for a stage more, FP32 of 64 of its columns.
  DEEPGEMM_SHARED_CODE constexpr StoreShape usual_store() const {
    if (staged_bytes() != 4) return {scaled() ? units() : 1, 1};
    if (scaled() || stores_whole_units()) return {1, 1};
    return {1, parts_of_chunks(ceil_div(group_columns(), 64))};
  }
  DEEPGEMM_SHARED_CODE constexpr bool fits(const StoreShape& s) const {
    return shared_map(*this, staging_bytes(s)).total <= max_shared_bytes;
  }
  // D takes the room that the stages leave.
  DEEPGEMM_SHARED_CODE constexpr StoreShape store_shape() const {
    StoreShape s = usual_store();
    while (!fits(s) && !stores_whole_units() && s.parts < column_chunks()) {
      s = s.units > 1 ? StoreShape{1, 1} : StoreShape{1, parts_of_chunks(s.parts + 1)};
    }
    return s;
  }
  DEEPGEMM_SHARED_CODE constexpr int units_per_store() const { return store_shape().units; }
  DEEPGEMM_SHARED_CODE constexpr int unit_parts() const { return store_shape().parts; }
  DEEPGEMM_SHARED_CODE constexpr int part_columns() const { return group_columns() / unit_parts(); }
  DEEPGEMM_SHARED_CODE constexpr int staged_part_bytes() const {
    return staging_bytes({1, unit_parts()});
  }
  DEEPGEMM_SHARED_CODE constexpr int staging_bytes() const { return staging_bytes(store_shape()); }

  // C comes through the ring as well, behind a tile's K blocks: in chunks, of which those of one
  // column of chunks follow each other, as many to a stage as fit into A's part and B's.
  DEEPGEMM_SHARED_CODE constexpr int row_chunks() const { return tile_m / unit_rows; }
  DEEPGEMM_SHARED_CODE constexpr int c_chunks() const { return row_chunks() * column_chunks(); }
  DEEPGEMM_SHARED_CODE constexpr int c_chunks_in_a() const { return a_bytes() / chunk_bytes(); }
  DEEPGEMM_SHARED_CODE constexpr int c_block_chunks() const {
    return c_chunks_in_a() + b_bytes() / chunk_bytes();
  }
  DEEPGEMM_SHARED_CODE constexpr int c_blocks() const {
    return epilogue == Epilogue::accumulate ? ceil_div(c_chunks(), c_block_chunks()) : 0;
  }

  // Sums that the other CTAs of a cluster along K send to its first.
  DEEPGEMM_SHARED_CODE constexpr int group_sum_bytes() const {
    return units() * unit_rows * group_columns() * 4;
  }
  DEEPGEMM_SHARED_CODE constexpr int reduction_bytes() const {
    return (cluster_k - 1) * consumers * group_sum_bytes();
  }

  // Columns whose scale factor of B is certainly the same: gcd(tile_n, 128), at most one unit.
  DEEPGEMM_SHARED_CODE constexpr int scale_granule() const {
    const int columns = group_columns();
    for (int granule = scale_block_n; granule > 8; granule /= 2) {
      if (tile_n % granule == 0 && columns % granule == 0) return granule;
    }
    return 8;
  }
  // A warpgroup's columns may lie across two scale blocks.
  DEEPGEMM_SHARED_CODE constexpr bool straddles_scales() const {
    return !(tile_n % scale_block_n == 0 && group_columns() <= scale_block_n) &&
           scale_block_n % tile_n != 0;
  }
  DEEPGEMM_SHARED_CODE constexpr bool spans_three_scales() const {
    for (int column = 0; column < scale_block_n * tile_n; column += tile_n) {
      if (column % scale_block_n + tile_n > 2 * scale_block_n) return true;
    }
    return false;
  }

  // With one unit, the products of both factors are ready before its WGMMA is: 64 more registers,
  // and the promotion is one FMA per sum again.
  DEEPGEMM_SHARED_CODE constexpr bool early_factors() const {
    return column_scales && units() == 1 && accumulators() * 3 + 32 <= consumer_budget();
  }
  DEEPGEMM_SHARED_CODE constexpr int consumer_budget() const {
    return consumers == 1 ? 255 : consumer_registers();
  }

  // Producer warps that load factors; with groups the fourth one works out the tiles.
  DEEPGEMM_SHARED_CODE constexpr int factor_warps() const {
    return scales_by_tma ? 0 : grouped() ? 1 : 2;
  }
  // Arrivals that complete a phase of the full barrier: the TMA lane, the header warp and each
  // factor warp.
  DEEPGEMM_SHARED_CODE constexpr int full_arrivals() const { return 2 + factor_warps(); }
  // Tiles that are worked out ahead.
  DEEPGEMM_SHARED_CODE constexpr int tile_slots() const { return grouped() ? 4 : 0; }
  DEEPGEMM_SHARED_CODE constexpr int empty_arrivals() const {
    return consumers * warps_per_group * ring_writers();
  }
  // Registers of a thread after setmaxnreg; 0 leaves the launch bound's share. The schedule
  // warp takes more of them, and all warps of a warpgroup have the same.
  DEEPGEMM_SHARED_CODE constexpr int producer_registers() const {
    if (grouped()) return consumers == 3 ? 56 : consumers == 2 ? 56 : 0;
    return consumers == 3 ? 32 : consumers == 2 ? 40 : 0;
  }
  DEEPGEMM_SHARED_CODE constexpr int consumer_registers() const {
    if (grouped()) return consumers == 3 ? 152 : consumers == 2 ? 224 : 0;
    return consumers == 3 ? 160 : consumers == 2 ? 232 : 0;
  }
  // What a consumer thread needs: one partial unit and the sums of all units, or the sums alone,
  // and 32 for addresses, scales and the loop; with groups beside factors per column or the general
  // epilogue it took more.
  DEEPGEMM_SHARED_CODE constexpr int needed_registers() const {
    const bool more = grouped() && (column_scales || epilogue == Epilogue::general);
    return accumulators() * (units() + scaled()) + 32 + (more ? 8 : 0);
  }
};

// Written for each K block by the producer side: scale factors of B (not with column_scales), and
// on a tile's first block where the tile lies.
struct StageHeader {
  float sfb[2];
  i32 group, end;  // of a grouped schedule: the tile's, see Tile
  // k_blocks: 0: the CTA has no tile. more: bit 0: not the CTA's last tile; above it what lies
  // before the group: of the tile's rows, or of k_groups' K.
  i32 row, column, k_blocks, more;
};
// With groups: a tile that is worked out ahead; see Tile. flags: bit 0: there is a tile, bit 1: and
// another one behind it.
struct TileSlot {
  i32 row, column, group, flags;
  i32 first, end, k, block;
};

DEEPGEMM_SHARED_CODE constexpr SharedMap shared_map(const GemmConfig& c, int staging_bytes) {
  SharedMap map{};
  map.a = 0;
  map.b = map.a + c.stages * c.a_bytes();
  map.out = map.b + c.stages * c.b_bytes();
  map.reduction = map.out + c.consumers * staging_bytes;
  map.sfa = map.reduction + c.reduction_bytes();
  map.sfb = map.sfa + c.stages * c.sfa_bytes();
  map.header = map.sfb + c.stages * c.sfb_bytes();
  map.tiles = map.header + c.stages * static_cast<int>(sizeof(StageHeader));
  map.full = map.tiles + c.tile_slots() * static_cast<int>(sizeof(TileSlot));
  map.empty = map.full + c.stages * 8;
  map.tile_full = map.empty + c.stages * 8;
  map.tile_empty = map.tile_full + c.tile_slots() * 8;
  map.sent = map.tile_empty + c.tile_slots() * 8;
  map.total = map.sent + (c.cluster_k > 1 ? 8 : 0);
  return map;
}
DEEPGEMM_SHARED_CODE constexpr SharedMap shared_map(const GemmConfig& c) {
  return shared_map(c, c.staging_bytes());
}

// The rules that depend on what the operands hold.
DEEPGEMM_SHARED_CODE constexpr const char* broken_rule_of_types(const GemmConfig& c) {
  if (c.scaled()) {
    if (bytes_of(c.b_type) != 1) return "a and b are both FP8, or have the same 16-bit type";
    if (c.a_mn_major || c.b_mn_major) return "WGMMA takes FP8 operands K-major only";
    if (c.group_columns() > 192) return "a warpgroup holds at most 192 columns";
    return nullptr;
  }
  if (bytes_of(c.a_type) != 2 || c.a_type != c.b_type)
    return "a and b are both FP8, or have the same 16-bit type";
  if (c.column_scales || !c.scales_by_tma) return "16-bit operands have no factors";
  if (c.ordered) return "16-bit operands have no promotion that warpgroups could take turns for";
  if (c.units() > 2) return "a warpgroup holds at most two units of 64 rows";
  if (c.units() == 2 && c.group_columns() > 128)
    return "a warpgroup with two units holds at most 128 columns";
  if (c.multicast() > 1) return "16-bit operands are not shared by multicast";
  if (c.a_mn_major && c.row_grouped()) return "the rows of groups are K-major";
  if (c.b_mn_major && c.consumers_n > 1 && c.group_columns() % unit_rows != 0)
    return "an N-major B comes in boxes of 64 columns, and warpgroups begin at one";
  return nullptr;
}

// nullptr if a kernel can be built from it, else the broken rule. The device asserts the same.
DEEPGEMM_SHARED_CODE constexpr const char* broken_rule(const GemmConfig& c) {
  if (c.consumers < 1 || c.consumers > 3) return "consumers must be 1, 2 or 3";
  if (c.consumers_n < 1 || c.consumers % c.consumers_n != 0)
    return "consumers_n must divide consumers";
  if (c.tile_m == 0 || c.tile_m * c.consumers_n % (unit_rows * c.consumers) != 0)
    return "tile_m must be a multiple of 64 rows for each warpgroup along M";
  if (c.tile_m > 256) return "tile_m must be at most 256 (a TMA box)";
  if (c.tile_n == 0 || c.tile_n % (16 * c.consumers_n) != 0)
    return "tile_n must be a multiple of 16 columns for each warpgroup along N";
  if (c.tile_n > 256) return "tile_n must be at most 256 (a TMA box)";
  if (const char* rule = broken_rule_of_types(c)) return rule;
  if (c.scaled() && c.spans_three_scales())
    return "a tile must touch at most two scale blocks of 128 columns";
  if (bytes_of(c.out_type) == 1) return "FP8 output needs the general epilogue";
  if (c.epilogue == Epilogue::reduce && c.out_type != ElementType::f32)
    return "TMA adds to D in FP32: out_type must be f32";
  if (c.epilogue == Epilogue::accumulate && c.scaled() && c.out_type != ElementType::f32)
    return "C is added to products of FP8 in FP32: out_type must be f32";
  if (c.epilogue == Epilogue::accumulate && !c.scales_by_tma)
    return "C follows operands of which TMA brings the factors too";
  if (c.epilogue == Epilogue::accumulate && c.consumers_n > 1)
    return "C comes for whole rows of a tile: no warpgroups side by side along N";
  if (c.epilogue == Epilogue::general && c.out_type != ElementType::f32)
    return "the general epilogue takes its output type at run time: out_type must be f32";
  if (c.column_scales && c.tile_n % 32 != 0)
    return "factors per column need tile_n to be a multiple of 32 (TMA writes 128-byte lines)";
  if (c.stages < 2) return "stages must be at least 2";
  if (c.cluster_m < 1 || c.cluster_n < 1 || c.multicast() > 2)
    return "a cluster that shares operands holds 1 or 2 CTAs (4 fit only 120 of 132 SMs)";
  if (c.cluster_k != 1 && c.cluster_k != 2 && c.cluster_k != 4)
    return "cluster_k must be 1, 2 or 4";
  if (c.cluster_k > 1 && c.multicast() > 1)
    return "a cluster shares operands or splits K, not both";
  if (c.tile_m / c.cluster_n % 8 != 0 || c.tile_n / c.cluster_m % 8 != 0)
    return "a multicast share must be a multiple of 8 rows";
  if (c.grouped() && c.cluster() > 1) return "a grouped schedule has no clusters";
  if (c.grouped() && c.epilogue == Epilogue::accumulate)
    return "C does not come through the ring of a grouped schedule";
  if (c.grouped() && !c.k_grouped() && c.epilogue == Epilogue::reduce)
    return "TMA does not add to rows of which some are another group's";
  if (c.row_grouped() && c.epilogue == Epilogue::general && c.units() > 1)
    return "the general epilogue of groups of rows takes one unit of 64 rows for each warpgroup";
  if (c.k_grouped() && (c.ordered || (c.scaled() && !c.column_scales)))
    return "groups of K have factors per column, and warpgroups that take no turns";
  if (c.ordered && c.consumers != 2) return "ordered needs two consumer warpgroups";
  if (c.needed_registers() > c.consumer_budget())
    return "accumulators exceed the register budget of the warpgroup";
  if (shared_map(c).total > max_shared_bytes) return "shared memory exceeds 232448 bytes";
  return nullptr;
}

static_assert(sizeof(GemmConfig) == 20, "GemmConfig must have no padding: its bytes are the key");
static_assert(sizeof(StageHeader) == 32 && sizeof(TileSlot) == 32);

}  // namespace deepgemm::device
