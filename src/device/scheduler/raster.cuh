// Which output tiles a persistent CTA visits, in which order.
#pragma once

#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "ptx/thread.cuh"

namespace deepgemm::device {

// Of a stack also the tile's group or matrix; of a grouped schedule between which rows the group
// lies; of k_groups instead from where on K is loaded, where in that the group's begins and ends
// (both 0: it has none), and its first block of factors.
struct Tile {
  i32 row = 0, column = 0;
  i32 group = 0, first = 0, end = 0;
  i32 k = 0, block = 0;
};

// The K blocks of a tile that a CTA multiplies.
struct KRange {
  i32 first, count;
};

// The cluster's CTAs along K divide the blocks; sizes differ by at most one.
template <GemmConfig C>
DEEPGEMM_DEVICE KRange k_range(const GemmParams& p) {
  const i32 blocks = ceil_div(p.k, static_cast<i32>(C.stage_k()));
  if constexpr (C.cluster_k == 1) return {0, blocks};
  const i32 rank = ptx::cluster_rank();
  const i32 first = blocks * rank / C.cluster_k;
  return {first, blocks * (rank + 1) / C.cluster_k - first};
}

// Whether this CTA reads C: of those that split K the one that stores.
template <GemmConfig C>
DEEPGEMM_DEVICE bool takes_c() {
  if constexpr (C.c_blocks() == 0) return false;
  return C.cluster_k == 1 || ptx::cluster_rank() == 0;
}

// Tiles are numbered so that `group` neighbours along one dimension come before the other dimension
// advances: CTAs that run at the same time then share rows of A and columns of B in L2. A cluster
// takes neighbouring tiles, and goes on past the edge of D where their number is odd (what is
// loaded there gives sums that TMA does not store). The matrices of a batch follow each other.
template <GemmConfig C>
struct Raster {
  const RasterParams& order;
  i32 tiles_m, tiles_n;  // in clusters
  i32 index, step, total;
  i32 rank;  // of this CTA in its cluster

  DEEPGEMM_DEVICE explicit Raster(const GemmParams& p) : order(p.raster) {
    tiles_m = ceil_div(p.m, static_cast<i32>(C.tile_m * C.cluster_m));
    tiles_n = ceil_div(p.n, static_cast<i32>(C.tile_n * C.cluster_n));
    total = tiles_m * tiles_n;
    if constexpr (C.stacked()) total *= p.batch;
    rank = 0;
    if constexpr (C.cluster() > 1) rank = ptx::cluster_rank();
    index = ptx::cta_index() / C.cluster();
    step = ptx::cta_count() / C.cluster();
  }

  DEEPGEMM_DEVICE bool valid() const { return index < total; }
  DEEPGEMM_DEVICE bool last() const { return index + step >= total; }
  DEEPGEMM_DEVICE void advance() { index += step; }

  DEEPGEMM_DEVICE Tile tile() const {
    const i32 matrix = C.stacked() ? quotient(index, order.matrix) : 0;
    const i32 inner_extent = order.along_n ? tiles_n : tiles_m;
    const i32 outer_extent = order.along_n ? tiles_m : tiles_n;
    const i32 at = index - matrix * (tiles_m * tiles_n);
    const i32 first = quotient(at, order.band) * order.group;  // of the group
    const i32 rest = at - first * outer_extent;
    const i32 left = inner_extent - first;
    const i32 whole = quotient(rest, order.column), narrow = quotient(rest, order.last_column);
    const i32 outer = left < order.group ? narrow : whole;
    const i32 inner = first + (rest - outer * min_of(order.group, left));
    const i32 m = (order.along_n ? outer : inner) * C.cluster_m + (C.cluster_m > 1 ? rank : 0);
    const i32 n = (order.along_n ? inner : outer) * C.cluster_n + (C.cluster_n > 1 ? rank : 0);
    return {m * C.tile_m, n * C.tile_n, matrix};
  }
};

}  // namespace deepgemm::device
