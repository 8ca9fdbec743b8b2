// Which tiles of a product grouped along K a persistent CTA visits: each group has all tiles of
// out, groups without K too, since they give 0 or c. The rest is as in scheduler/grouped.cuh.
#pragma once

#include "common/group_vector.cuh"
#include "scheduler/grouped.cuh"

namespace deepgemm::device {

// A tile of matrix `group` of out, over k ... k_end - 1; `block` is the group's first block of
// factors.
struct KGroupTile {
  i32 group, row, column, k, k_end, block;
};

// The vector has sizes, and its `rows` are all of K. The host sees to it that groups * tiles_m *
// tiles_n is at most max_group_tiles. Sizes that exceed K are cut where it ends.
template <class Lanes>
class KGroupWalk {
 public:
  static constexpr i32 k_per_block = 128;

  DEEPGEMM_DEVICE KGroupWalk(const GroupVector& vector, const GroupTiling& tiling, i32 tiles_m,
                             i32 first, i32 step)
      : v_(vector), t_(tiling), tiles_m_(tiles_m), batch_{first, step} {
    if (v_.groups > 0) load();
    find_tiles();
  }

  DEEPGEMM_DEVICE bool valid() const { return batch_.valid(); }
  DEEPGEMM_DEVICE void advance() {
    if (!batch_.advance()) find_tiles();
  }
  DEEPGEMM_DEVICE KGroupTile tile() const {
    const i32 now = batch_.now, lane = lane_of_group_.at(now);
    return {chunk_ + lane,    tile_rows_.at(now), tile_columns_.at(now),
            begins_.at(lane), ends_.at(lane),     blocks_.at(lane)};
  }

 private:
  static constexpr i32 lanes = 32;

  DEEPGEMM_DEVICE void load() {
    const Lanes sizes = Lanes::of([this](i32 lane) {
      return chunk_ + lane < v_.groups ? read_between(v_, chunk_ + lane, 0, v_.rows) : 0;
    });
    const Lanes sums = sizes.sums(v_.rows);
    ends_ = Lanes::of([&](i32 lane) { return sum_up_to(sums.own(lane), k_before_, v_.rows); });
    begins_ = ends_.shifted(k_before_);
    k_before_ = ends_.at(lanes - 1);
    // At most ceil(K / 128) + groups blocks: no limit is met.
    constexpr i32 no_limit = 0x7FFFFFFF;
    const Lanes through = Lanes::of([this](i32 lane) {
                            return ceil_div(ends_.own(lane) - begins_.own(lane), k_per_block);
                          }).sums(no_limit);
    blocks_ = Lanes::of([&](i32 lane) {
                return through.own(lane) + blocks_before_;
              }).shifted(blocks_before_);
    blocks_before_ += through.at(lanes - 1);
  }

  // Goes on to the chunk of the batch's first tile, and works out the tiles there that are this
  // CTA's.
  DEEPGEMM_DEVICE void find_tiles() {
    const i32 per_group = tiles_m_ * t_.tiles_n;
    if (batch_.index >= v_.groups * per_group) return;
    while (batch_.index / per_group >= chunk_ + lanes) {
      chunk_ += lanes;
      load();
    }
    batch_.fill_up_to(min_of(chunk_ + lanes, v_.groups) * per_group);
    const auto place = [&](i32 lane) {
      return place_in_bands(batch_.of_lane(lane) % per_group, tiles_m_, t_);
    };
    lane_of_group_ = Lanes::of([&](i32 lane) { return batch_.of_lane(lane) / per_group - chunk_; });
    tile_rows_ = Lanes::of([&](i32 lane) { return place(lane).row * t_.tile_m; });
    tile_columns_ = Lanes::of([&](i32 lane) { return place(lane).column * t_.tile_n; });
  }

  GroupVector v_;
  GroupTiling t_;
  i32 tiles_m_;
  TileBatch batch_;
  i32 chunk_ = 0;          // its first group
  i32 k_before_ = 0;       // of the groups before the next chunk
  i32 blocks_before_ = 0;  // likewise
  Lanes begins_, ends_, blocks_;
  // Of the batch's tiles.
  Lanes lane_of_group_, tile_rows_, tile_columns_;
};

}  // namespace deepgemm::device
