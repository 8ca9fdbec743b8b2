// The schedules of grouped products on the host: over thousands of group vectors every tile is
// visited once, none has rows of two groups, and vectors that lie stay inside the arrays.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "group_vectors.hpp"
#include "host_lanes.hpp"

using namespace deepgemm::device;
using test::Form, test::HostLanes, test::Random, test::Values, test::Vector;

namespace {

// (group, row, first, end, column) -> how often
using Visits = std::map<std::tuple<i32, i32, i32, i32, i32>, int>;

// All CTAs' walks; `bound` tiles at most, else the walk has not ended.
template <class Walk>
Visits walked(const GroupVector& vector, const GroupTiling& tiling, i32 ctas, i64 bound) {
  Visits visits;
  for (i32 cta = 0; cta < ctas; ++cta) {
    i64 left = bound;
    for (Walk walk(vector, tiling, cta, ctas); walk.valid(); walk.advance()) {
      if (left-- <= 0) FAIL("a walk does not end");
      const GroupTile tile = walk.tile();
      ++visits[{tile.group, tile.row, tile.first, tile.end, tile.column}];
    }
  }
  return visits;
}

Visits wanted(const std::vector<GroupSpan>& spans, const GroupTiling& t) {
  Visits visits;
  for (std::size_t g = 0; g < spans.size(); ++g) {
    const i32 begin = spans[g].begin, end = spans[g].end;
    if (begin == end) continue;
    for (i32 row = begin / t.align * t.align; row < end; row += t.tile_m) {
      for (i32 n = 0; n < t.tiles_n; ++n) {
        visits[{i32(g), row, std::max(row, begin), end, n * t.tile_n}] = 1;
      }
    }
  }
  return visits;
}

struct Layout {
  std::vector<GroupSpan> spans;
  Values vector;
  std::int64_t rows = 0;  // at least
};

// The vector of a form for these sizes, and the spans that it means.
Layout laid_out(Form form, const Values& sizes, i32 alignment) {
  Layout layout;
  std::int64_t end = 0;
  for (std::int64_t size : sizes) {
    if (form == Form::masks) {
      layout.spans.push_back({0, i32(size)});
      layout.rows = std::max(layout.rows, size);
      layout.vector.push_back(size);
      continue;
    }
    if (form == Form::ends) end = (end + alignment - 1) / alignment * alignment;
    if (form == Form::offsets && layout.vector.empty()) layout.vector.push_back(0);
    layout.spans.push_back({i32(end), i32(end + size)});
    end += size;
    layout.vector.push_back(form == Form::sizes ? size : end);
    layout.rows = end;
  }
  return layout;
}

}  // namespace

TEST_CASE("every tile once: thousands of vectors, every form, any number of CTAs") {
  constexpr i32 cta_counts[] = {1, 7, 66, 131, 132};
  constexpr Form forms[] = {Form::sizes, Form::offsets, Form::ends, Form::masks};
  Random random(11);
  for (int i = 0; i < 4000; ++i) {
    const std::int64_t groups = random.integer(1, i % 50 == 0 ? 1500 : 70);
    const Form form = forms[i % 4];
    const i32 alignment = form == Form::ends ? i32(random.integer(1, 130)) : 1;
    const Layout layout =
        laid_out(form, random_sizes(random, groups, random.integer(0, 3000)), alignment);
    const GroupTiling tiling = random_tiling(random);
    const Vector vector(form, layout.vector, groups, layout.rows + random.integer(0, 300),
                        random.integer(0, 1) == 1, alignment, random.integer(1, 3));
    // Clusters of two and four share a tile: there are as many walks as clusters.
    const i32 walks = std::max(cta_counts[random.integer(0, 4)] >> random.integer(0, 2), 1);
    const Visits want = wanted(layout.spans, tiling);
    INFO(i);
    CHECK(walked<GroupWalk<HostLanes>>(vector.view, tiling, walks, i64(want.size())) == want);
  }
}

TEST_CASE("the chunks of 32 groups meet") {
  for (std::int64_t groups : {31, 32, 33, 64, 65, 1024, 2048}) {
    for (std::int64_t only : {std::int64_t{0}, groups / 2, groups - 1, std::int64_t{-1}}) {
      Values sizes(std::size_t(groups), only < 0 ? 1 : 0);
      if (only >= 0) sizes[std::size_t(only)] = 1000;
      const Layout layout = laid_out(Form::sizes, sizes, 1);
      const Vector vector(Form::sizes, sizes, groups, layout.rows);
      const GroupTiling tiling{64, 128, 3, 4};
      const Visits want = wanted(layout.spans, tiling);
      CHECK(walked<GroupWalk<HostLanes>>(vector.view, tiling, 131, i64(want.size())) == want);
    }
  }
}

TEST_CASE("the last wave's tiles are divided among the CTAs that would be idle") {
  Random random(13);
  int divided = 0;
  for (int i = 0; i < 3000; ++i) {
    const std::int64_t groups = random.integer(1, 32);
    const Form form = i % 2 == 0 ? Form::sizes : Form::masks;
    const Layout layout = laid_out(form, random_sizes(random, groups, random.integer(0, 3000)), 1);
    GroupTiling tiling = random_tiling(random);
    const Vector vector(form, layout.vector, groups, layout.rows);
    const i32 ctas = i32(random.integer(1, 132));
    const Visits whole = wanted(layout.spans, tiling);
    tiling.unit = 64;
    const i64 bound = i64(whole.size()) * 8;
    const Visits visits = walked<GroupWalk<HostLanes>>(vector.view, tiling, ctas, bound);
    const i64 rest = i64(whole.size()) % ctas;
    i64 parts = 1;
    while (rest > 0 && 2 * parts * rest <= ctas && tiling.tile_m % (2 * parts * 64) == 0) {
      parts *= 2;
    }
    // Every row of every tile once, none twice, and no CTA has a tile more than before.
    std::map<std::tuple<i32, i32, i32>, int> rows, want;
    const auto add = [&](const Visits& tiles, auto& sum) {
      for (const auto& [tile, times] : tiles) {
        const auto& [group, row, begin, end, column] = tile;
        for (i32 r = begin; r < std::min(row + tiling.tile_m, end); ++r) {
          sum[{group, r, column}] += times;
        }
      }
    };
    add(visits, rows);
    add(whole, want);
    i64 cut = 0;
    for (const auto& [tile, times] : visits) cut += whole.count(tile) == 0;
    std::size_t most = 0;
    for (i32 cta = 0; cta < ctas; ++cta) {
      std::size_t count = 0;
      for (GroupWalk<HostLanes> walk(vector.view, tiling, cta, ctas); walk.valid();
           walk.advance()) {
        ++count;
      }
      most = std::max(most, count);
    }
    divided += parts > 1;
    INFO(i);
    CHECK(rows == want);
    CHECK(cut <= rest * parts);
    CHECK((parts == 1 ? cut == 0 : cut >= 0));
    CHECK(most == (whole.size() + std::size_t(ctas) - 1) / std::size_t(ctas));
  }
  CHECK(divided > 300);  // the other cases were not all there was
}

TEST_CASE("a divided tile by hand, and groups that are too many for it") {
  const GroupTiling tiling{256, 128, 1, 8, 1, 64};
  const Vector vector(Form::sizes, {256, 200}, 2, 456);
  // Two tiles for eight CTAs: four parts each, and what is past a group's end is nobody's.
  CHECK(walked<GroupWalk<HostLanes>>(vector.view, tiling, 8, 1) ==
        Visits{{{0, 0, 0, 64, 0}, 1},
               {{0, 64, 64, 128, 0}, 1},
               {{0, 128, 128, 192, 0}, 1},
               {{0, 192, 192, 256, 0}, 1},
               {{1, 256, 256, 320, 0}, 1},
               {{1, 320, 320, 384, 0}, 1},
               {{1, 384, 384, 448, 0}, 1},
               {{1, 448, 448, 456, 0}, 1}});
  Values sizes(33, 0);
  sizes[3] = 256;
  const Vector many(Form::sizes, sizes, 33, 256);
  CHECK(walked<GroupWalk<HostLanes>>(many.view, tiling, 8, 1) == Visits{{{3, 0, 0, 256, 0}, 1}});
}

TEST_CASE("no group, no row, more CTAs than tiles") {
  const GroupTiling tiling{64, 128, 2, 4};
  const Vector none(Form::sizes, {}, 0, 100), empty(Form::sizes, {0, 0, 0}, 3, 100);
  CHECK(walked<GroupWalk<HostLanes>>(none.view, tiling, 132, 0).empty());
  CHECK(walked<GroupWalk<HostLanes>>(empty.view, tiling, 132, 0).empty());
  CHECK(walked<LabelWalk<HostLanes>>(Vector(Form::labels, {}, 3, 0).view, tiling, 132, 0).empty());
  const Vector one(Form::sizes, {0, 1, 0}, 3, 100);
  CHECK(walked<GroupWalk<HostLanes>>(one.view, tiling, 132, 2) ==
        Visits{{{1, 0, 0, 1, 0}, 1}, {{1, 0, 0, 1, 128}, 1}});
}

TEST_CASE("an end before its group's start is an empty group") {
  const GroupTiling tiling{128, 128, 1, 8};
  const Vector vector(Form::ends, {3, 3, 6, 11}, 4, 12, false, 4);
  CHECK(walked<GroupWalk<HostLanes>>(vector.view, tiling, 1, 3) ==
        Visits{{{0, 0, 0, 3, 0}, 1}, {{2, 4, 4, 6, 0}, 1}, {{3, 8, 8, 11, 0}, 1}});
}

TEST_CASE("in a band, row tiles come before columns") {
  const GroupTiling tiling{10, 100, 3, 2};
  const Vector vector(Form::sizes, {45}, 1, 45);
  Values rows, columns;
  for (GroupWalk<HostLanes> walk(vector.view, tiling, 0, 1); walk.valid(); walk.advance()) {
    rows.push_back(walk.tile().row);
    columns.push_back(walk.tile().column);
  }
  CHECK(rows == Values{0, 10, 0, 10, 0, 10, 20, 30, 20, 30, 20, 30, 40, 40, 40});
  CHECK(columns == Values{0, 0, 100, 100, 200, 200, 0, 0, 100, 100, 200, 200, 0, 100, 200});
}

TEST_CASE("the short last rows of groups fall to all CTAs alike") {
  constexpr i32 ctas = 132, groups = 32;
  for (i32 rows : {192, 320, 448, 576, 704, 832, 960, 1088}) {
    for (i32 tiles_n : {32, 48}) {
      const GroupTiling tiling{128, 128, tiles_n, 8};
      const Vector vector(Form::sizes, Values(groups, rows), groups, groups * rows);
      const i32 each = groups * tiles_n / ctas;  // short tiles, if all had the same
      i32 least = each, most = each;
      for (i32 cta = 0; cta < ctas; ++cta) {
        i32 found = 0;
        for (GroupWalk<HostLanes> walk(vector.view, tiling, cta, ctas); walk.valid();
             walk.advance()) {
          found += walk.tile().end - walk.tile().row <= 64;
        }
        least = std::min(least, found);
        most = std::max(most, found);
      }
      INFO(rows, " rows, ", tiles_n, " columns: ", least, " to ", most);
      CHECK(least >= each / 2);
      CHECK(most <= 2 * each);
    }
  }
}

TEST_CASE("vectors that lie: tiles stay inside the arrays and the walk ends") {
  constexpr Form forms[] = {Form::sizes, Form::offsets, Form::ends, Form::masks, Form::labels};
  Random random(23);
  for (int i = 0; i < 2000; ++i) {
    const Form form = forms[i % 5];
    const std::int64_t groups = random.integer(1, 70), rows = random.integer(0, 2000);
    GroupTiling tiling = random_tiling(random);
    tiling.unit = i32(random.integer(0, 1) * 64);
    Values values(std::size_t(form == Form::labels ? rows : groups + 1));
    for (auto& value : values) {
      value = random.integer(0, 2) == 0 ? random.integer(-5, rows + 5)
                                        : i64(random.bits()) >> random.integer(0, 63);
    }
    const bool wide = random.integer(0, 1) == 1;
    const Vector vector(form, values, groups, rows, wide, i32(random.integer(1, 1 << 30)));
    const i64 row_tiles = (rows + tiling.tile_m - 1) / tiling.tile_m;
    const i64 bound = (form == Form::labels ? rows : groups * row_tiles) * tiling.tiles_n + 1;
    const Visits visits = form == Form::labels
                              ? walked<LabelWalk<HostLanes>>(vector.view, tiling, 7, bound)
                              : walked<GroupWalk<HostLanes>>(vector.view, tiling, 7, bound);
    bool inside = true;
    for (const auto& [tile, times] : visits) {
      const auto& [group, row, begin, end, column] = tile;
      inside &= group >= 0 && group < groups && row >= 0 && row <= begin && begin < end;
      inside &= begin < row + tiling.align && end <= rows;
      inside &= column >= 0 && column < tiling.tiles_n * tiling.tile_n && times == 1;
    }
    INFO(i);
    CHECK(inside);
  }
}

TEST_CASE("offsets that claim more tiles than can be counted: the walk ends") {
  const std::int64_t groups = 200, rows = 1000;
  Values offsets(std::size_t(groups + 1), 0);
  for (std::size_t i = 1; i < offsets.size(); i += 2)
    offsets[i] = rows;  // 0 to 1000, a hundred times
  const Vector vector(Form::offsets, offsets, groups, rows);
  const GroupTiling tiling{8, 8, 1 << 20, 4};  // 125 row tiles, each of 2^20 tiles
  const i32 end = max_group_tiles / tiling.tiles_n * tiling.tiles_n;
  for (i32 ctas : {1, 132, 1 << 20}) {
    i32 steps = 0;
    for (GroupWalk<HostLanes> walk(vector.view, tiling, end - ctas - 1, ctas); walk.valid();
         walk.advance()) {
      const GroupTile tile = walk.tile();
      CHECK(tile.group % 2 == 0);
      CHECK(tile.end == rows);
      CHECK(tile.row < rows);
      CHECK(tile.column < 8 << 20);
      if (++steps > 2) FAIL("a walk does not end");
    }
    CHECK(steps == 2);
  }
}

TEST_CASE("sizes that exceed M are cut where M ends") {
  const GroupTiling tiling{64, 128, 1, 8};
  const Vector vector(Form::sizes, {60, 0x7FFFFFFF, 0x7FFFFFFF, 5}, 4, 100);
  const Visits want{{{0, 0, 0, 60, 0}, 1}, {{1, 60, 60, 100, 0}, 1}};
  CHECK(walked<GroupWalk<HostLanes>>(vector.view, tiling, 7, 2) == want);
  const std::int64_t low_half_is_5 = (std::int64_t{1} << 32) + 5;
  const Vector wide(Form::sizes, {60, low_half_is_5, low_half_is_5, 5}, 4, 100, true);
  CHECK(walked<GroupWalk<HostLanes>>(wide.view, tiling, 7, 2) == want);
  constexpr i32 largest = 0x7FFFFFFF;
  CHECK(sum_up_to(largest, largest, largest) == largest);
  CHECK(sum_up_to(largest - 1, 1, largest) == largest);
  CHECK(sum_up_to(3, 4, 7) == 7);
  CHECK(sum_up_to(3, 4, 8) == 7);
}

TEST_CASE("labels: every row of a group once in every column, in tiles of one group") {
  Random random(37);
  for (int i = 0; i < 1500; ++i) {
    const std::int64_t groups = random.integer(1, 20), rows = random.integer(0, 700);
    const std::int64_t longest = random.integer(1, 200);
    Values labels;
    while (std::int64_t(labels.size()) < rows) {
      labels.insert(labels.end(), std::size_t(random.integer(1, longest)),
                    random.integer(-1, groups - 1));
    }
    labels.resize(std::size_t(rows));
    const GroupTiling tiling = random_tiling(random);
    const Vector vector(Form::labels, labels, groups, rows, i % 2 == 0, 1, random.integer(1, 2));
    std::map<std::tuple<i32, i32>, int> seen;
    bool right = true;
    for (const auto& [tile, times] : walked<LabelWalk<HostLanes>>(
             vector.view, tiling, i32(random.integer(1, 132)), rows * tiling.tiles_n)) {
      const auto& [group, row, begin, end, column] = tile;
      right &= row / tiling.tile_m == (end - 1) / tiling.tile_m && times == 1;
      right &= row == begin / tiling.align * tiling.align;
      for (i32 r = begin; r < end; ++r) {
        right &= labels[std::size_t(r)] == group;
        ++seen[{r, column}];
      }
    }
    for (const auto& [place, times] : seen) right &= times == 1;
    const auto some = std::count_if(labels.begin(), labels.end(), [](auto g) { return g >= 0; });
    INFO(i);
    CHECK(right);
    CHECK(std::int64_t(seen.size()) == some * tiling.tiles_n);
  }
}
