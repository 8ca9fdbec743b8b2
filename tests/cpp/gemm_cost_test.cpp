// The choice of configs: legal, bounded, monotone where it must be, and open to a policy.
#include <doctest/doctest.h>

#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "heuristics/fitted_h200.hpp"
#include "heuristics/gemm_heuristics.hpp"

using namespace deepgemm;
using namespace deepgemm::heuristics;

namespace {

std::string bytes(const device::GemmConfig& config) {
  return {reinterpret_cast<const char*>(&config), sizeof(config)};
}

GemmRequest request(std::int64_t m, std::int64_t n, std::int64_t k) {
  GemmRequest r;
  r.m = m;
  r.n = n;
  r.k = k;
  return r;
}

}  // namespace

TEST_CASE("every selectable config is legal and unlike the others") {
  std::set<std::string> seen;
  for (const device::GemmConfig& config : selectable_configs()) {
    CAPTURE(describe(config));
    CHECK(device::broken_rule(config) == nullptr);
    CHECK(device::shared_map(config).total <= device::max_shared_bytes);
    CHECK(seen.insert(bytes(config)).second);
  }
  CHECK(seen.size() >= 20);
  CHECK(seen.size() <= 1300);
}

TEST_CASE("no M meets a config outside the selectable set") {
  std::set<std::string> selectable;
  for (const device::GemmConfig& config : selectable_configs()) selectable.insert(bytes(config));
  for (bool scales_by_tma : {true, false}) {
    for (bool general : {true, false}) {
      for (std::int64_t m = 1; m <= 16384; m += m < 300 ? 1 : 61) {
        GemmRequest r = request(m, 2112, 7168);
        r.scales_by_tma = scales_by_tma;
        r.epilogue = general ? device::Epilogue::general : device::Epilogue::store;
        REQUIRE(selectable.count(bytes(choose(r).config)) == 1);
      }
    }
  }
}

TEST_CASE("the grid covers the tiles and whole clusters, within the SMs") {
  for (int num_sms : {1, 2, 7, 66, 131, 132}) {
    for (std::int64_t m : {1, 64, 129, 4096}) {
      GemmRequest r = request(m, 7168, 2048);
      r.num_sms = num_sms;
      const GemmChoice choice = choose(r);
      CAPTURE(num_sms);
      CAPTURE(m);
      const int cluster = choice.config.cluster();
      CHECK(choice.grid >= 1);
      CHECK(choice.grid % cluster == 0);
      CHECK(choice.grid <= num_sms);
      CHECK(choice.waves * choice.grid >= choice.tiles);
      CHECK(choice.tiles * choice.config.tile_m * choice.config.tile_n >= m * 7168);
    }
  }
}

TEST_CASE("there is a candidate for every request, on a single SM too") {
  for (int flags = 0; flags < 16; ++flags) {
    GemmRequest r = request(100, 7168, 2048);
    r.column_scales = (flags & 1) != 0;
    r.scales_by_tma = (flags & 2) != 0;
    r.num_sms = (flags & 4) != 0 ? 1 : 132;
    r.b_type = (flags & 8) != 0 ? device::ElementType::e5m2 : device::ElementType::e4m3;
    CAPTURE(flags);
    for (device::Epilogue epilogue :
         {device::Epilogue::store, device::Epilogue::accumulate, device::Epilogue::general}) {
      if (epilogue == device::Epilogue::accumulate && !r.scales_by_tma) continue;
      r.epilogue = epilogue;
      r.out_type = epilogue == device::Epilogue::store ? device::ElementType::bf16
                                                       : device::ElementType::f32;
      const auto choices = candidates(r);
      REQUIRE_FALSE(choices.empty());
      for (const GemmChoice& choice : choices) CHECK(choice.config.cluster() <= r.num_sms);
    }
  }
}

// Why: the fit of another tile stands for one that has none. 64x64's did for 64x128 in 16-bit
// groups of K, which was predicted at half of what it takes, and taken.
// (A split of K of a tile that has been swept without it is estimated.)
TEST_CASE("every tile that aligned products may take has been swept") {
  using device::ElementType;
  using device::Epilogue;
  using device::Schedule;
  struct Case {
    Schedule schedule;
    ElementType type, out;
    bool column_scales;
    Epilogue epilogue;
    int kind;
  };
  const Case cases[] = {
      {Schedule::dense, ElementType::e4m3, ElementType::bf16, false, Epilogue::store, 0},
      {Schedule::dense, ElementType::e4m3, ElementType::f32, true, Epilogue::store, 1},
      {Schedule::dense, ElementType::e4m3, ElementType::f32, true, Epilogue::reduce, 2},
      {Schedule::dense, ElementType::e4m3, ElementType::f32, true, Epilogue::accumulate, 3},
      {Schedule::dense, ElementType::bf16, ElementType::bf16, false, Epilogue::store, 4},
      {Schedule::dense, ElementType::bf16, ElementType::f32, false, Epilogue::store, 5},
      {Schedule::dense, ElementType::bf16, ElementType::f32, false, Epilogue::reduce, 6},
      {Schedule::dense, ElementType::bf16, ElementType::f32, false, Epilogue::accumulate, 7},
      {Schedule::dense, ElementType::bf16, ElementType::bf16, false, Epilogue::accumulate, 8},
      {Schedule::groups, ElementType::e4m3, ElementType::bf16, false, Epilogue::store, 9},
      {Schedule::k_groups, ElementType::e4m3, ElementType::f32, true, Epilogue::reduce, 10},
      {Schedule::groups, ElementType::bf16, ElementType::bf16, false, Epilogue::store, 11},
      {Schedule::k_groups, ElementType::bf16, ElementType::f32, false, Epilogue::reduce, 12},
  };
  for (const Case& c : cases) {
    std::set<std::pair<int, int>> swept;
    for (const FittedGemm& f : fitted_gemm)
      if (f.kind == c.kind) swept.insert({f.tile_m, f.tile_n});
    GemmRequest r = request(512, 7168, 2048);
    r.schedule = c.schedule;
    r.a_type = r.b_type = c.type;
    r.out_type = c.out;
    r.column_scales = c.column_scales;
    r.epilogue = c.epilogue;
    if (c.schedule != Schedule::dense) r.groups = 8;
    const auto configs = configs_for(r);
    REQUIRE(configs.size() >= 3);
    for (const device::GemmConfig& config : configs) {
      CAPTURE(c.kind);
      CAPTURE(describe(config));
      CHECK(swept.count({config.tile_m, config.tile_n}) == 1);
    }
  }
}

TEST_CASE("candidates come cheapest first") {
  const auto choices = candidates(request(4096, 7168, 16000));  // not swept, so not tuned
  REQUIRE(choices.size() > 3);
  REQUIRE_FALSE(choices[0].tuned);
  for (std::size_t i = 1; i < choices.size(); ++i) {
    CHECK(choices[i - 1].predicted_us <= choices[i].predicted_us);
  }
}

TEST_CASE("a tuned problem takes the config that a sweep found, on a device like the swept one") {
  int met = 0;
  for (const TunedGemm& t : tuned_gemm) {
    GemmRequest r = request(64 * t.row_tiles, t.n, t.k);
    using device::Epilogue;
    constexpr Epilogue of_kind[] = {
        Epilogue::store,      Epilogue::store,      Epilogue::reduce,
        Epilogue::accumulate, Epilogue::store,      Epilogue::store,
        Epilogue::reduce,     Epilogue::accumulate, Epilogue::accumulate};
    const bool float8 = t.kind < 4, narrow = t.kind == 0 || t.kind == 4 || t.kind == 8;
    if (!float8) r.a_type = r.b_type = device::ElementType::bf16;
    r.column_scales = float8 && t.kind != 0;
    r.out_type = narrow ? device::ElementType::bf16 : device::ElementType::f32;
    r.epilogue = of_kind[t.kind];
    const GemmChoice choice = choose(r);
    CHECK(choice.tuned);
    CHECK(choice.raster_along_n == (t.raster_along_n != 0));
    CHECK(choice.raster_group <= t.raster_group);  // or what the dimension has
    CHECK(choice.config.tile_m == t.tile_m);
    CHECK(choice.config.tile_n == t.tile_n);
    CHECK(choice.config.cluster_k == t.cluster_k);
    CHECK(choice.predicted_us == double{t.us});
    r.m -= 63;  // as many tiles
    CHECK(choose(r).tuned);
    r.num_sms = 66;
    CHECK_FALSE(choose(r).tuned);
    ++met;
  }
  CHECK(met > 0);
}

TEST_CASE(
    "where both operands are many times L2, the tile that reads each byte least often is taken") {
  GemmRequest r = request(4096, 7168, 129280);
  r.a_type = r.b_type = r.out_type = device::ElementType::bf16;
  const GemmChoice choice = choose(r);
  CHECK(choice.config.tile_m * choice.config.tile_n == 256 * 128);
  r.k = 7168;  // 2112 columns are whole tiles of 176
  r.n = 2112;
  CHECK(choose(r).config.tile_n == 176);
}

TEST_CASE("the operand that few tiles read leaves L2 first") {
  using device::L2Policy;
  const GemmChoice tokens = choose(request(128, 7168, 16384));
  CHECK(tokens.a_policy == L2Policy::evict_normal);
  CHECK(tokens.b_policy == L2Policy::evict_first);
  const GemmChoice narrow = choose(request(4096, 512, 7168));
  CHECK(narrow.a_policy == L2Policy::evict_first);
  CHECK(narrow.b_policy == L2Policy::evict_normal);
  const GemmChoice vocabulary = choose(request(128, 129280, 7168));
  CHECK(vocabulary.b_policy == L2Policy::evict_normal);
  const GemmChoice large = choose(request(4096, 7168, 2048));
  CHECK(large.a_policy == L2Policy::evict_normal);
  CHECK(large.b_policy == L2Policy::evict_normal);
}

TEST_CASE("a policy picks a candidate by any of its fields") {
  Policy policy;
  policy.tile_m = 192;
  policy.tile_n = 96;
  const GemmChoice choice = choose(request(4096, 576, 7168), &policy);
  CHECK(choice.config.tile_m == 192);
  CHECK(choice.config.tile_n == 96);
  CHECK(choice.config.consumers == 3);
}

TEST_CASE("a policy changes the nearest candidate, whichever is the cheapest") {
  GemmRequest r = request(8192, 4096, 4096);
  r.schedule = device::Schedule::groups;
  r.groups = 4;
  REQUIRE(choose(r).config.consumers_n == 2);
  Policy tile;
  tile.tile_m = 64;
  tile.tile_n = 48;
  tile.consumers = 1;
  const device::GemmConfig small = choose(r, &tile).config;
  CHECK(small.tile_n == 48);
  CHECK(small.ordered == 0);
  CHECK(small.consumers_n == 1);
  Policy stages;
  stages.tile_m = 256;
  stages.tile_n = 128;
  stages.stages = 3;
  const device::GemmConfig tall = choose(r, &stages).config;
  CHECK(tall.tile_n == 128);
  CHECK(tall.consumers_n == 1);
}

TEST_CASE("groups of more rows than a tile of 256 take one of 128x256") {
  for (const device::ElementType type : {device::ElementType::e4m3, device::ElementType::bf16}) {
    GemmRequest r = request(192, 6144, 7168);
    r.schedule = device::Schedule::groups;
    r.groups = 32;
    r.a_type = r.b_type = type;
    CHECK(choose(r).config.tile_m == 256);
    for (r.m = 257; r.m < 10000; r.m += 517) {
      for (const GemmChoice& choice : candidates(r)) CHECK(choice.config.tile_m < 256);
      CHECK(choose(r).config.tile_n == 256);
    }
  }
}

TEST_CASE("the tiles for factors of B per 128 columns are for no others") {
  const auto has = [](const GemmRequest& r, int tile_m, int tile_n) {
    for (const device::GemmConfig& c : configs_for(r)) {
      if (c.tile_m == tile_m && c.tile_n == tile_n) return true;
    }
    return false;
  };
  GemmRequest r = request(192, 7168, 16384);
  CHECK(has(r, 192, 64));
  CHECK(has(r, 128, 96));
  CHECK(choose(r).config.tile_n == 64);
  r.column_scales = true;
  CHECK(!has(r, 192, 64));
  CHECK(!has(r, 128, 96));
}

TEST_CASE("D is staged in smaller parts where the stages leave no room") {
  device::GemmConfig config;
  config.tile_m = 256;
  config.stages = 3;
  CHECK(config.units_per_store() == 2);
  CHECK(config.unit_parts() == 1);
  config.stages = 4;
  CHECK(!config.fits(config.usual_store()));
  CHECK(config.units_per_store() == 1);
  CHECK(config.unit_parts() == 2);
  CHECK(config.part_columns() == 64);
  CHECK(device::broken_rule(config) == nullptr);
  config.stages = 5;
  CHECK(config.unit_parts() == config.column_chunks());
  CHECK(std::string(device::broken_rule(config)).find("shared memory") != std::string::npos);
}

TEST_CASE("an illegal policy is refused with the rule it breaks") {
  Policy policy;
  policy.tile_m = 100;
  CHECK_THROWS_WITH_AS(choose(request(128, 128, 128), &policy), doctest::Contains("multiple of 64"),
                       ValueError);
  Policy stages;
  stages.stages = 50;
  CHECK_THROWS_WITH_AS(choose(request(128, 128, 128), &stages), doctest::Contains("shared memory"),
                       ValueError);
}

TEST_CASE("the rules of a config name what they forbid") {
  device::GemmConfig config;
  CHECK(device::broken_rule(config) == nullptr);
  config.tile_n = 176;  // at column 96 or 112 of a scale block it touches three of them
  CHECK(std::string(device::broken_rule(config)).find("two scale blocks") != std::string::npos);
  config = {};
  config.cluster_m = 2;
  config.cluster_n = 2;
  CHECK(std::string(device::broken_rule(config)).find("cluster") != std::string::npos);
  config = {};
  config.tile_m = 256;
  config.tile_n = 192;
  CHECK(std::string(device::broken_rule(config)).find("register") != std::string::npos);
}

TEST_CASE("K is split only where all tiles run at once and every CTA has a part") {
  bool split_somewhere = false;
  for (std::int64_t m : {1, 33, 64, 128, 300, 4096}) {
    for (std::int64_t k : {16, 128, 256, 7168}) {
      for (const GemmChoice& choice : candidates(request(m, 2112, k))) {
        const int split = choice.config.cluster_k;
        if (split == 1) continue;
        split_somewhere = true;
        CHECK(choice.waves == 1);
        CHECK(choice.grid == choice.tiles);
        CHECK(choice.grid <= (split > 2 ? 120 : 132));
        CHECK((k + 127) / 128 >= split);
      }
    }
  }
  CHECK(split_somewhere);
  Policy policy;
  policy.cluster_k = 2;
  policy.tile_m = policy.tile_n = 128;
  policy.consumers = 2;
  policy.cluster_m = policy.cluster_n = 1;
  CHECK_THROWS_WITH_AS(choose(request(4096, 4096, 7168), &policy),
                       doctest::Contains("K can be split"), ValueError);
  CHECK_THROWS_WITH_AS(choose(request(64, 64, 128), &policy), doctest::Contains("K can be split"),
                       ValueError);
}
