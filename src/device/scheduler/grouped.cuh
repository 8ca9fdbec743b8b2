// Which tiles of a grouped product a persistent CTA visits. No tile has rows of two groups, each is
// visited once, and nothing is asked of the host: a warp reads the group vector 32 numbers at a
// time. Plain C++: `Lanes` is a warp's (scheduler/lanes.cuh), or an array in the tests.
#pragma once

#include "common/group_vector.cuh"
#include "common/types.cuh"

namespace deepgemm::device {

// A tile starts at (row, column); rows `first` to `end` - 1 of it are the group's: stores are
// clipped there, and what is loaded beside them belongs to another group. Rows count in a, or in
// matrix `group` of it (masks).
struct GroupTile {
  i32 group = 0, row = 0, first = 0, end = 0, column = 0;
};

// The host sees to it that (ceil(rows / tile_m) + groups) * tiles_n, for masks
// ceil(rows / tile_m) * groups * tiles_n, is at most max_group_tiles: tiles count in 32 bits.
struct GroupTiling {
  i32 tile_m, tile_n;
  i32 tiles_n;
  i32 band;       // row tiles side by side before the columns advance: they share B in L2
  i32 align = 1;  // tiles start at multiples of it, a power of two, in front of their group
  i32 unit = 0;   // tiles may be divided into parts of whole units of so many rows; 0: they are not
};

DEEPGEMM_SHARED_CODE i32 aligned_down(i32 row, i32 align) { return row & -align; }

// Of the tiles that a CTA takes, every `step`th of all, those that a warp's lanes work out
// together.
struct TileBatch {
  i32 index, step;         // index: of the first one among all tiles
  i32 end = 0;             // of all tiles that may be in the batch
  i32 now = 0, found = 0;  // the current lane, and how many have a tile

  DEEPGEMM_DEVICE bool valid() const { return now < found; }
  // Whether the next tile is in the batch; else the batch is empty, and begins with that tile.
  DEEPGEMM_DEVICE bool advance() {
    if (++now < found) return true;
    index += found * step;
    now = found = 0;
    return false;
  }
  DEEPGEMM_DEVICE void drop_last() { --found; }
  DEEPGEMM_DEVICE void fill_up_to(i32 limit) {
    end = limit;
    found = min_of(32, ceil_div(end - index, step));
  }
  // The lane's tile; a lane without one takes the last.
  DEEPGEMM_DEVICE i32 of_lane(i32 lane) const { return min_of(index + lane * step, end - 1); }
};

struct TilePlace {
  i32 row, column;  // in tiles
};

// After how many tiles a CTA that takes every `step`th one meets the same of `width` rows again.
DEEPGEMM_SHARED_CODE i32 tiles_until_same_row(i32 step, i32 width) {
  u32 tiles = step;
  while (tiles % static_cast<u32>(width) != 0) tiles += step;
  return static_cast<i32>(tiles);
}

// Tile `index` of a grid of `height` row tiles, taken in bands.
//
// With `step` (else 0), and `before` tiles before the grid: the row that a column begins with moves
// on each time a CTA would meet the same row again. Why: where a band's rows divide the CTAs, a CTA
// met one of them in every column, and in groups of 192 rows half of 132 CTAs had all the whole
// tiles, the other half all the short ones.
DEEPGEMM_SHARED_CODE TilePlace place_in_bands(i32 index, i32 height, const GroupTiling& t,
                                              i32 before = 0, i32 step = 0) {
  const u32 at = index, per_band = t.band * t.tiles_n;
  const u32 above = at / per_band * t.band, rest = at % per_band;
  const u32 width = min_of(t.band, height - static_cast<i32>(above));
  if (width == 1) return {static_cast<i32>(above), static_cast<i32>(rest)};
  const u32 row = rest % width;
  // Of the column's first tile, so that all of its rows move alike.
  const u32 moves =
      step >= static_cast<i32>(width) ? (before + at - row) / tiles_until_same_row(step, width) : 0;
  return {static_cast<i32>(above + (row + moves) % width), static_cast<i32>(rest / width)};
}

// Walks groups in order, and in each the tiles in bands: every form but labels. `index` counts all
// tiles; this CTA (or cluster) takes every `step`th, of which there are less than 2^25. A vector
// that lies gives tiles inside the arrays still, and the walk ends.
//
// Where the last wave of tiles leaves CTAs idle, its tiles are divided by rows among them: into 2,
// 4 or more parts, which count as tiles of their own. Why: 6 groups of 1024 rows are 6.3 waves,
// which took as long as 7. Only of up to 32 groups, of which all tiles are known from the start.
//
// Each lane works out one of the next 32 tiles. Why: a search and three divisions for each tile
// took the producers longer than a K block, with operands missing meanwhile.
template <class Lanes>
class GroupWalk {
 public:
  DEEPGEMM_DEVICE GroupWalk(const GroupVector& vector, const GroupTiling& tiling, i32 first,
                            i32 step)
      : v_(vector), t_(tiling), batch_{first, step} {
    load();
    if (v_.groups <= lanes) divide();
    find_tiles();
  }

  DEEPGEMM_DEVICE bool valid() const { return batch_.valid(); }
  DEEPGEMM_DEVICE void advance() {
    if (!batch_.advance()) find_tiles();
  }
  DEEPGEMM_DEVICE GroupTile tile() const {
    const i32 now = batch_.now;
    return {chunk_ + lane_of_group_.at(now), tile_rows_.at(now), tile_firsts_.at(now),
            tile_ends_.at(now), tile_columns_.at(now)};
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
    through_ = Lanes::of([this](i32 lane) {
                 return row_tiles(begins_.own(lane), ends_.own(lane));
               }).sums(most_tiles());
    tiles_here_ = min_of(through_.at(lanes - 1), most_tiles() - tiles_before_);
  }

  DEEPGEMM_DEVICE i32 row_tiles(i32 begin, i32 end) const {
    return end > begin ? ceil_div(end - aligned_down(begin, t_.align), t_.tile_m) : 0;
  }

  DEEPGEMM_DEVICE GroupSpan span(i32 lane) const {
    if (chunk_ + lane >= v_.groups) return {0, 0};
    return span_of_group(v_, chunk_ + lane);
  }

  DEEPGEMM_DEVICE void divide() {
    const i32 total = tiles_here_ * t_.tiles_n, last_wave = total % batch_.step;
    if (t_.unit == 0 || last_wave == 0) return;
    while (2 * parts_ * last_wave <= batch_.step && t_.tile_m % (2 * parts_ * t_.unit) == 0) {
      parts_ *= 2;
    }
    if (parts_ > 1) whole_ = total - last_wave;
  }

  // The numbers of the tiles up to this chunk's end.
  DEEPGEMM_DEVICE i32 numbers() const {
    const i32 end = (tiles_before_ + tiles_here_) * t_.tiles_n;
    return end <= whole_ ? end : whole_ + (end - whole_) * parts_;
  }

  // A number counts whole tiles up to whole_, then parts.
  DEEPGEMM_DEVICE i32 tile_of(i32 number) const {
    return number < whole_ ? number : whole_ + (number - whole_) / parts_;
  }
  DEEPGEMM_DEVICE i32 part_of(i32 number) const {
    return number < whole_ ? 0 : (number - whole_) % parts_;
  }
  DEEPGEMM_DEVICE i32 rows_of(i32 number) const {
    return number < whole_ ? t_.tile_m : t_.tile_m / parts_;
  }

  // Goes on to the chunk of the batch's first tile, and works out the tiles there that are this
  // CTA's; none are found past the last chunk.
  DEEPGEMM_DEVICE void find_tiles() {
    while (chunk_ < v_.groups && batch_.index >= numbers()) {
      tiles_before_ += tiles_here_;
      chunk_ += lanes;
      if (chunk_ < v_.groups) load();
    }
    if (chunk_ >= v_.groups) return;
    batch_.fill_up_to(numbers());
    const auto in_chunk = [&](i32 lane) {
      return tile_of(batch_.of_lane(lane)) - tiles_before_ * t_.tiles_n;
    };
    lane_of_group_ =
        through_.count_up_to(Lanes::of([&](i32 lane) { return in_chunk(lane) / t_.tiles_n; }));
    const Lanes begins = begins_.pick(lane_of_group_), through = through_.pick(lane_of_group_);
    const Lanes ends = ends_.pick(lane_of_group_);
    const auto place = [&](i32 lane) {
      const i32 height = row_tiles(begins.own(lane), ends.own(lane));
      const i32 before = (through.own(lane) - height) * t_.tiles_n;
      return place_in_bands(in_chunk(lane) - before, height, t_,
                            tiles_before_ * t_.tiles_n + before, batch_.step);
    };
    tile_rows_ = Lanes::of([&](i32 lane) {
      const i32 number = batch_.of_lane(lane);
      return aligned_down(begins.own(lane), t_.align) + place(lane).row * t_.tile_m +
             part_of(number) * rows_of(number);
    });
    tile_ends_ = Lanes::of([&](i32 lane) {
      const i32 number = batch_.of_lane(lane);
      return number < whole_ ? ends.own(lane)
                             : min_of(ends.own(lane), tile_rows_.own(lane) + rows_of(number));
    });
    tile_firsts_ =
        Lanes::of([&](i32 lane) { return max_of(tile_rows_.own(lane), begins.own(lane)); });
    tile_columns_ = Lanes::of([&](i32 lane) { return place(lane).column * t_.tile_n; });
    // A part past its group's end is nothing; only a CTA's last tile is a part.
    const i32 last = batch_.found - 1;
    if (batch_.found > 0 && tile_rows_.at(last) >= tile_ends_.at(last)) batch_.drop_last();
  }

  GroupVector v_;
  GroupTiling t_;
  TileBatch batch_;
  i32 chunk_ = 0;         // its first group
  i32 rows_before_ = 0;   // of the groups before the next chunk, if the vector has sizes
  i32 tiles_before_ = 0;  // row tiles before the chunk
  i32 tiles_here_ = 0;    // in the chunk
  i32 whole_ = max_group_tiles, parts_ = 1;  // see tile_of()
  Lanes begins_, ends_, through_;
  // Of the batch's tiles.
  Lanes lane_of_group_, tile_rows_, tile_firsts_, tile_ends_, tile_columns_;
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
    if (valid()) next_ = place_in_bands(index_, height_, t_);
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
  static constexpr i32 batch = 8, lanes = 32;
  DEEPGEMM_DEVICE i32 total() const { return height_ * t_.tiles_n; }

  // -1 and v_.groups stand for every label outside.
  DEEPGEMM_DEVICE i32 label(i32 row) const { return read_between(v_, row, -1, v_.groups); }

  DEEPGEMM_DEVICE void enter() {
    if (!valid()) return;
    tile_.row = next_.row * t_.tile_m;
    tile_.column = next_.column * t_.tile_n;
    limit_ = min_of(tile_.row + t_.tile_m, v_.rows);
    if (index_ + step_ >= total()) return;
    next_ = place_in_bands(index_ + step_, height_, t_);
    prefetch(next_.row * t_.tile_m);
  }

  // The labels of a tile that comes later.
  DEEPGEMM_DEVICE void prefetch(i32 begin) {
    const i32 end = min_of(begin + t_.tile_m, v_.rows);
    for (i32 row = begin; row < end; row += lanes) {
      Lanes::prefetch([&](i32 lane) -> const void* {
        return row + lane < end ? address_of(v_, row + lane) : nullptr;
      });
    }
  }

  // From tile_.row on, the next run that has a group.
  DEEPGEMM_DEVICE void seek() {
    while (valid()) {
      while (tile_.row < limit_) {
        find_run(tile_.row);
        if (tile_.group >= 0 && tile_.group < v_.groups) return;
        tile_.row = tile_.end;
      }
      index_ += step_;
      enter();
    }
  }

  // Whether all rows from `first` on have its label. Why asked first: it mostly is so, and takes a
  // fraction of what the search for the end of a run does, which is a chain of steps.
  DEEPGEMM_DEVICE bool is_one_run(i32 first) const {
    const i32 last = limit_ - 1;
    const Lanes differ = Lanes::of([&](i32 lane) {
      i32 bits = 0;
      for (i32 i = 0; i < batch; ++i) {
        bits |= difference(v_, first, min_of(first + i * lanes + lane, last));
      }
      return bits;
    });
    return limit_ - first <= batch * lanes && differ.first_other_than(0) == lanes;
  }

  // The run of equal labels that starts at row `first`.
  DEEPGEMM_DEVICE void find_run(i32 first) {
    tile_.row = aligned_down(first, t_.align);
    tile_.first = first;
    if (is_one_run(first)) {
      tile_.group = label(first);
      tile_.end = limit_;
    } else {
      search(first);
    }
  }

  // In batches, whose loads are in flight together.
  DEEPGEMM_DEVICE void search(i32 first) {
    constexpr i32 past = -2;  // other than any label
    tile_.end = first;
    for (i32 same = lanes; same == lanes;) {
      Lanes found[batch];
      for (i32 i = 0; i < batch; ++i) {
        found[i] = Lanes::of([&](i32 lane) {
          const i32 row = tile_.end + i * lanes + lane;
          return row < limit_ ? label(row) : past;
        });
      }
      if (tile_.end == first) tile_.group = found[0].at(0);
      for (i32 i = 0; i < batch; ++i) {
        if (same == lanes) tile_.end += same = found[i].first_other_than(tile_.group);
      }
    }
  }

  GroupVector v_;
  GroupTiling t_;
  i32 step_;
  i32 index_;
  i32 height_ = 0;
  i32 limit_ = 0;     // the end of this tile's rows
  TilePlace next_{};  // of the next tile, if there is one
  GroupTile tile_;
};

}  // namespace deepgemm::device
