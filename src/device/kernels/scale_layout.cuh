// Layouts of scale factors: copied, packed by fours of exponents along K, and unpacked, for any
// strides and any extents. A tile of factors at a time, through shared memory.
#pragma once

#include "common/gemm_params.cuh"
#include "common/simple_configs.cuh"
#include "ptx/memory.cuh"
#include "ptx/thread.cuh"

namespace deepgemm::device {

// The matrix of a tile, its first row, and its first factor along K.
struct ScaleTile {
  i64 matrix, row, factor;
};

// A thread's elements of a tile, of which neighbouring threads' are neighbours in memory: element i
// lies i steps on.
struct TileWalk {
  int row, column, row_step, column_step;
};

template <int Columns>
DEEPGEMM_DEVICE TileWalk tile_walk(bool by_rows) {
  using C = ScaleLayoutConfig;
  const int thread = ptx::thread_index();
  if (by_rows) return {thread % C::rows, thread / C::rows, 0, C::threads / C::rows};
  return {thread / Columns, thread % Columns, C::threads / Columns, 0};
}

DEEPGEMM_DEVICE u32 tile_address(u32 shared, int row, int factor) {
  return shared + (factor * ScaleLayoutConfig::pitch + row) * 4;
}

// Where a factor of groups along K lies in `in`, the groups' K blocks being dense on one side and
// padded to a multiple of four on the other: its number there, -1 for none.
DEEPGEMM_DEVICE i32 source_in_groups(const ScaleLayoutParams& p, i64 factor) {
  constexpr i64 per_word = ScaleLayoutConfig::per_word;
  const bool packs = p.work == ScaleWork::pack_groups;
  i64 dense = 0, padded = 0;
  for (i32 g = 0; g < p.vector.groups; ++g) {
    const u32 size = static_cast<u32>(read_between(p.vector, g, 0, 0x7FFFFFFF));
    const i64 blocks = ceil_div(size, static_cast<u32>(p.k_per_scale));
    const i64 padded_blocks = ceil_div(blocks, per_word) * per_word;
    const i64 at = factor - (packs ? padded : dense);
    if (at < (packs ? padded_blocks : blocks)) {
      if (at >= blocks) return -1;
      const i64 source = at + (packs ? dense : padded);
      return source < (packs ? p.in_columns : p.in_columns * per_word) ? static_cast<i32>(source)
                                                                       : -1;
    }
    dense += blocks;
    padded += padded_blocks;
  }
  return -1;
}

// Marks the tile's rows that a group has.
DEEPGEMM_DEVICE void mark_owned_rows(const ScaleLayoutParams& p, const ScaleTile& tile,
                                     u32 shared) {
  using C = ScaleLayoutConfig;
  const u32 owned = shared + C::owned * 4;
  if (ptx::thread_index() < C::rows) ptx::store_shared_u32(owned + ptx::thread_index() * 4, 0);
  ptx::sync_cta();
  for (i32 g = ptx::thread_index(); g < p.vector.groups; g += C::threads) {
    const GroupSpan span = span_of_group(p.vector, g);
    const i64 end = min_of(span.end - tile.row, static_cast<i64>(C::rows));
    for (i64 row = max_of(span.begin - tile.row, i64{0}); row < end; ++row) {
      ptx::store_shared_u32(owned + static_cast<u32>(row) * 4, 1);
    }
  }
}

DEEPGEMM_DEVICE bool has_groups_of_k(ScaleWork work) {
  return work == ScaleWork::pack_groups || work == ScaleWork::unpack_groups;
}

// Brings a tile of factors, those that are not there as 0. Loads come first: they overlap.
DEEPGEMM_DEVICE void load_factors(const ScaleLayoutParams& p, const ScaleTile& tile, u32 shared) {
  using C = ScaleLayoutConfig;
  constexpr int each = C::rows * C::factors / C::threads;
  const bool unpacks = p.work == ScaleWork::unpack || p.work == ScaleWork::unpack_groups;
  const bool groups = has_groups_of_k(p.work);
  const TileWalk walk = tile_walk<C::factors>(p.in_by_rows != 0);
  const u32* in = static_cast<const u32*>(p.in) + tile.matrix * p.in_matrix;
  const auto source_of = [&](int i) -> i64 {
    const int at = walk.column + i * walk.column_step;
    if (groups) return static_cast<i32>(ptx::load_shared_u32(shared + (C::sources + at) * 4));
    return tile.factor + at;
  };
  u32 words[each];
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const i64 row = tile.row + walk.row + i * walk.row_step, source = source_of(i);
    const i64 column = unpacks ? source >> 2 : source;
    const bool inside = row < p.rows && source >= 0 && column < p.in_columns;
    words[i] = inside ? in[row * p.in_row + column * p.in_column] : 0;
  }
#pragma unroll
  for (int i = 0; i < each; ++i) {
    if (unpacks) words[i] = (words[i] >> (source_of(i) & 3) * 8 & 0xFF) << 23;
    const u32 address =
        tile_address(shared, walk.row + i * walk.row_step, walk.column + i * walk.column_step);
    ptx::store_shared_u32(address, words[i]);
  }
}

// What no power of two becomes, and infinity: it shows in every product, as a dropped mantissa
// would not.
inline constexpr u32 code_of_infinity = 0xFF;

DEEPGEMM_DEVICE u32 exponent_of(u32 bits) {
  return (bits & ~0x7F800000U) == 0 ? bits >> 23 : code_of_infinity;
}

// The exponents of four factors of one row.
DEEPGEMM_DEVICE u32 packed_word(u32 shared, int row, int word) {
  u32 packed = 0;
#pragma unroll
  for (int j = 0; j < ScaleLayoutConfig::per_word; ++j) {
    const int factor = word * ScaleLayoutConfig::per_word + j;
    const u32 bits = ptx::load_shared_u32(tile_address(shared, row, factor));
    packed |= exponent_of(bits) << (8 * j);
  }
  return packed;
}

template <bool Packs>
DEEPGEMM_DEVICE void store_words(const ScaleLayoutParams& p, const ScaleTile& tile, u32 shared,
                                 bool in_rows) {
  using C = ScaleLayoutConfig;
  constexpr int columns = Packs ? C::factors / C::per_word : C::factors;
  const i64 first = Packs ? tile.factor / C::per_word : tile.factor;
  const TileWalk walk = tile_walk<columns>(p.out_by_rows != 0);
  u32* out = static_cast<u32*>(p.out) + tile.matrix * p.out_matrix;
#pragma unroll
  for (int i = 0; i < C::rows * columns / C::threads; ++i) {
    const int r = walk.row + i * walk.row_step, c = walk.column + i * walk.column_step;
    const i64 row = tile.row + r, column = first + c;
    if (row >= p.rows || column >= p.out_columns) continue;
    u32 word = 0;
    if (!in_rows || ptx::load_shared_u32(shared + (C::owned + r) * 4) != 0) {
      word = Packs ? packed_word(shared, r, c) : ptx::load_shared_u32(tile_address(shared, r, c));
    }
    out[row * p.out_row + column * p.out_column] = word;
  }
}

DEEPGEMM_DEVICE void scale_layout(const ScaleLayoutParams& p) {
  using C = ScaleLayoutConfig;
  const u32 shared = ptx::dynamic_shared();
  const bool packs = p.work == ScaleWork::pack || p.work == ScaleWork::pack_groups;
  const bool in_rows = p.work == ScaleWork::pack && p.vector.form == GroupVectorForm::ends;
  for (i64 i = ptx::cta_index(); i < p.tiles; i += ptx::cta_count()) {
    const i64 across = i / p.tiles_down;
    const ScaleTile tile{across / p.tiles_across, i % p.tiles_down * C::rows,
                         across % p.tiles_across * C::factors};
    if (has_groups_of_k(p.work)) {
      const int lane = ptx::thread_index();
      if (lane < C::factors) {
        ptx::store_shared_u32(shared + (C::sources + lane) * 4,
                              static_cast<u32>(source_in_groups(p, tile.factor + lane)));
      }
      ptx::sync_cta();
    }
    if (in_rows) mark_owned_rows(p, tile, shared);
    load_factors(p, tile, shared);
    ptx::sync_cta();
    if (packs) {
      store_words<true>(p, tile, shared, in_rows);
    } else {
      store_words<false>(p, tile, shared, in_rows);
    }
    ptx::sync_cta();  // before the next tile
  }
}

}  // namespace deepgemm::device
