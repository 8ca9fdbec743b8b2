// Which tiles of a grouped product a persistent CTA visits. No tile has rows of two groups, each is
// visited once, and nothing is asked of the host: a warp reads the group vector 32 numbers at a
// time. Plain C++: `Lanes` is a warp's (scheduler/lanes.cuh), or an array in the tests.
#pragma once

#include "common/group_vector.cuh"
#include "common/types.cuh"

namespace deepgemm::device {

// A tile starts at (row, column) and ends before row `end` at the latest: stores are clipped there,
// and what is loaded past it belongs to another group. Rows count in a, or in matrix `group` of it
// (masks).
struct GroupTile {
  i32 group = 0, row = 0, end = 0, column = 0;
};

// The host sees to it that (ceil(rows / tile_m) + groups) * tiles_n, for masks
// ceil(rows / tile_m) * groups * tiles_n, is at most max_group_tiles: tiles count in 32 bits.
struct GroupTiling {
  i32 tile_m, tile_n;
  i32 tiles_n;
  i32 band;  // row tiles side by side before the columns advance: they share B in L2
};

struct TilePlace {
  i32 row, column;  // in tiles
};

// Tile `index` of a grid of `height` row tiles, taken in bands.
DEEPGEMM_SHARED_CODE TilePlace place_in_bands(i32 index, i32 height, const GroupTiling& t) {
  const i32 per_band = t.band * t.tiles_n;
  const i32 above = index / per_band * t.band;
  const i32 rest = index % per_band;
  const i32 width = min_of(t.band, height - above);
  return {above + rest % width, rest / width};
}

// Walks groups in order, and in each the tiles in bands: every form but labels. `index` counts all
// tiles; this CTA (or cluster) takes every `step`th. A vector that lies gives tiles inside the
// arrays still, and the walk ends.
template <class Lanes>
class GroupWalk {
 public:
  DEEPGEMM_DEVICE GroupWalk(const GroupVector& vector, const GroupTiling& tiling, i32 first,
                            i32 step)
      : v_(vector), t_(tiling), step_(step), index_(first) {
    load();
    seek();
  }

  DEEPGEMM_DEVICE bool valid() const { return chunk_ < v_.groups; }
  DEEPGEMM_DEVICE void advance() {
    index_ += step_;
    seek();
  }

  DEEPGEMM_DEVICE GroupTile tile() const {
    // The groups that are over before this row tile, empty ones among them.
    const i32 lane = through_.count_up_to(index_ / t_.tiles_n - tiles_before_);
    const i32 begin = begins_.at(lane), end = ends_.at(lane);
    const i32 height = ceil_div(end - begin, t_.tile_m);
    const i32 first = tiles_before_ + through_.at(lane) - height;
    const TilePlace place = place_in_bands(index_ - first * t_.tiles_n, height, t_);
    return {chunk_ + lane, begin + place.row * t_.tile_m, end, place.column * t_.tile_n};
  }

 private:
  static constexpr i32 lanes = 32;
  // Row tiles are not counted further, were the vector to claim more than there are.
  DEEPGEMM_DEVICE i32 most_tiles() const { return max_group_tiles / t_.tiles_n; }

  // The spans of groups chunk_ to chunk_ + 31, and how many row tiles they have up to each.
  DEEPGEMM_DEVICE void load() {
    if (v_.form == GroupVectorForm::sizes) {
      const Lanes sizes = Lanes::of([this](i32 lane) {
        return chunk_ + lane < v_.groups ? read_between(v_, chunk_ + lane, 0, v_.rows) : 0;
      });
      const Lanes sums = sizes.sums(v_.rows);
      ends_ = Lanes::of([&](i32 lane) { return sum_up_to(sums.own(lane), rows_before_, v_.rows); });
      begins_ = ends_.shifted(rows_before_);
      rows_before_ = ends_.at(lanes - 1);
    } else {
      begins_ = Lanes::of([this](i32 lane) { return span(lane).begin; });
      ends_ = Lanes::of([this](i32 lane) { return span(lane).end; });
    }
    const Lanes heights = Lanes::of(
        [this](i32 lane) { return ceil_div(ends_.own(lane) - begins_.own(lane), t_.tile_m); });
    through_ = heights.sums(most_tiles());
    tiles_here_ = min_of(through_.at(lanes - 1), most_tiles() - tiles_before_);
  }

  DEEPGEMM_DEVICE GroupSpan span(i32 lane) const {
    if (chunk_ + lane >= v_.groups) return {0, 0};
    return span_of_group(v_, chunk_ + lane);
  }

  // Goes on to the chunk that has tile index_, or past the last one.
  DEEPGEMM_DEVICE void seek() {
    while (valid() && index_ >= (tiles_before_ + tiles_here_) * t_.tiles_n) {
      tiles_before_ += tiles_here_;
      chunk_ += lanes;
      if (valid()) load();
    }
  }

  GroupVector v_;
  GroupTiling t_;
  i32 step_;
  i32 index_;
  i32 chunk_ = 0;         // its first group
  i32 rows_before_ = 0;   // of the groups before the next chunk, if the vector has sizes
  i32 tiles_before_ = 0;  // row tiles before the chunk
  i32 tiles_here_ = 0;    // in the chunk
  Lanes begins_, ends_, through_;
};

// Labels: fixed tiles of rows, each visited once for every run of equal labels in it. Rows of no
// group, and labels of groups that do not exist, are passed over.
template <class Lanes>
class LabelWalk {
 public:
  DEEPGEMM_DEVICE LabelWalk(const GroupVector& vector, const GroupTiling& tiling, i32 first,
                            i32 step)
      : v_(vector), t_(tiling), step_(step), index_(first) {
    height_ = ceil_div(v_.rows, t_.tile_m);
    enter();
    seek();
  }

  DEEPGEMM_DEVICE bool valid() const { return index_ < total(); }
  DEEPGEMM_DEVICE void advance() {
    tile_.row = tile_.end;
    seek();
  }
  DEEPGEMM_DEVICE GroupTile tile() const { return tile_; }

 private:
  DEEPGEMM_DEVICE i32 total() const { return height_ * t_.tiles_n; }

  // -1 and v_.groups stand for every label outside.
  DEEPGEMM_DEVICE i32 label(i32 row) const { return read_between(v_, row, -1, v_.groups); }

  DEEPGEMM_DEVICE void enter() {
    if (!valid()) return;
    const TilePlace place = place_in_bands(index_, height_, t_);
    tile_.row = place.row * t_.tile_m;
    tile_.column = place.column * t_.tile_n;
    limit_ = min_of(tile_.row + t_.tile_m, v_.rows);
  }

  DEEPGEMM_DEVICE i32 end_of_run(i32 row, i32 group) const {
    for (i32 same = 32; row < limit_ && same == 32; row += same) {
      const Lanes found = Lanes::of([&](i32 lane) {
        return row + lane < limit_ ? label(row + lane) : -2;  // -2: other than any label
      });
      same = found.first_other_than(group);
    }
    return row;
  }

  // From tile_.row on, the next run that has a group.
  DEEPGEMM_DEVICE void seek() {
    while (valid()) {
      while (tile_.row < limit_) {
        tile_.group = label(tile_.row);
        tile_.end = end_of_run(tile_.row, tile_.group);
        if (tile_.group >= 0 && tile_.group < v_.groups) return;
        tile_.row = tile_.end;
      }
      index_ += step_;
      enter();
    }
  }

  GroupVector v_;
  GroupTiling t_;
  i32 step_;
  i32 index_;
  i32 height_ = 0;
  i32 limit_ = 0;  // the end of this tile's rows
  GroupTile tile_;
};

}  // namespace deepgemm::device
