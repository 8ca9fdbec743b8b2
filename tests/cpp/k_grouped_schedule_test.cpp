// The schedule of groups along K on the host: every tile of every group once.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "group_vectors.hpp"
#include "host_lanes.hpp"
#include "scheduler/k_grouped.cuh"

using namespace deepgemm::device;
using test::Form, test::HostLanes, test::Random, test::Values, test::Vector;

TEST_CASE("along K: every tile of every group once, with its slice of K and its first block") {
  constexpr i32 cta_counts[] = {1, 7, 66, 131, 132};
  Random random(41);
  for (int i = 0; i < 1500; ++i) {
    const std::int64_t groups = random.integer(1, i % 50 == 0 ? 1100 : 80);
    Values sizes = random_sizes(random, groups, random.integer(0, 200));
    for (auto& size : sizes) size *= 16;
    std::int64_t k = 0, block = 0;
    const GroupTiling tiling = random_tiling(random);
    const i32 tiles_m = i32(random.integer(1, 5));
    std::map<std::tuple<i32, i32, i32>, std::tuple<i32, i32, i32>> want, found;
    for (std::size_t g = 0; g < sizes.size(); ++g) {
      for (i32 m = 0; m < tiles_m; ++m) {
        for (i32 n = 0; n < tiling.tiles_n; ++n) {
          want[{i32(g), m * tiling.tile_m, n * tiling.tile_n}] = {i32(k), i32(k + sizes[g]),
                                                                  i32(block)};
        }
      }
      k += sizes[g];
      block += (sizes[g] + 127) / 128;
    }
    const Vector vector(Form::sizes, sizes, groups, k + random.integer(0, 99), i % 2 == 0);
    const i32 walks = std::max(cta_counts[random.integer(0, 4)] >> random.integer(0, 2), 1);
    std::size_t visits = 0;
    for (i32 cta = 0; cta < walks; ++cta) {
      for (KGroupWalk<HostLanes> walk(vector.view, tiling, tiles_m, cta, walks); walk.valid();
           walk.advance()) {
        if (++visits > want.size()) FAIL("a walk does not end");
        const KGroupTile tile = walk.tile();
        found[{tile.group, tile.row, tile.column}] = {tile.k, tile.k_end, tile.block};
      }
    }
    INFO(i);
    CHECK(visits == want.size());
    CHECK(found == want);
  }
}

TEST_CASE("along K: sizes that lie are cut where K ends") {
  Random random(43);
  for (int i = 0; i < 300; ++i) {
    const std::int64_t groups = random.integer(0, 70), k = random.integer(0, 3000);
    Values sizes;
    for (std::int64_t g = 0; g < groups; ++g) {
      sizes.push_back(i64(random.bits()) >> random.integer(20, 63));
    }
    const Vector vector(Form::sizes, sizes, groups, k, i % 2 == 0);
    bool inside = true;
    for (KGroupWalk<HostLanes> walk(vector.view, {64, 128, 1, 4}, 1, 0, 1); walk.valid();
         walk.advance()) {
      const KGroupTile tile = walk.tile();
      inside &= tile.k >= 0 && tile.k <= tile.k_end && tile.k_end <= k && tile.block >= 0 &&
                tile.block <= k / 128 + groups;
    }
    CHECK(inside);
  }
}
