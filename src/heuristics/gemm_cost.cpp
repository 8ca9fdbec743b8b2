// What a config would cost, and the choice of the cheapest.
#include <algorithm>
#include <cmath>

#include "core/math.hpp"
#include "core/text.hpp"
#include "deepgemm/error.hpp"
#include "heuristics/fitted_h200.hpp"
#include "heuristics/gemm_heuristics.hpp"
#include "heuristics/large_operand.hpp"
#include "heuristics/policy_fields.hpp"

namespace deepgemm::heuristics {
namespace {

using device::GemmConfig;

bool reads_c(const GemmConfig& c) {
  return c.epilogue == device::Epilogue::accumulate || c.epilogue == device::Epilogue::reduce;
}

// The sweep that a config belongs to (fitted_h200.hpp), and the bytes of one element of D that
// crossed the memory in it.
int kind_of(const GemmConfig& c) {
  if (c.grouped()) return (c.scaled() ? 9 : 11) + (c.k_grouped() ? 1 : 0);
  const bool accumulates = c.epilogue == device::Epilogue::accumulate;
  if (!c.scaled() && device::bytes_of(c.out_type) == 2) return accumulates ? 8 : 4;
  if (c.scaled() && !c.column_scales) return 0;
  const int first = c.scaled() ? 1 : 5;
  return c.epilogue == device::Epilogue::reduce ? first + 1 : accumulates ? first + 2 : first;
}
constexpr double output_bytes_of_kind[] = {2, 4, 8, 8, 2, 4, 8, 8, 4, 2, 8, 2, 8};

// The measured tile closest to a config: the same tile and cluster if there is one (stages are not
// in the table), else the one of the nearest area.
const FittedGemm& fitted_for(const GemmConfig& c) {
  const FittedGemm* closest = nullptr;
  double least = 0;
  for (const FittedGemm& f : fitted_gemm) {
    if (f.kind != kind_of(c)) continue;
    const double area = std::abs(std::log(double(f.tile_m) * f.tile_n / (c.tile_m * c.tile_n)));
    const double distance = area + (f.tile_m != c.tile_m) + (f.cluster_m != c.cluster_m) +
                            (f.cluster_n != c.cluster_n) + (f.cluster_k != c.cluster_k) +
                            0.5 * (f.ordered != c.ordered);
    if (closest == nullptr || distance < least) {
      least = distance;
      closest = &f;
    }
  }
  return *closest;
}

// The mean of ceil(size / of) for groups of 0.7 to 1.3 of so many rows.
double expected(std::int64_t rows, int of) {
  constexpr int samples = 16;
  double sum = 0;
  for (int i = 0; i < samples; ++i) {
    sum += std::ceil(static_cast<double>(rows) * (0.7 + 0.6 * (i + 0.5) / samples) / of);
  }
  return sum / samples;
}

// Of one group: its tiles along M in the mean, and the part of their units that has rows of it.
struct GroupTiles {
  double count, live;
};
GroupTiles tiles_of_group(const GemmConfig& c, std::int64_t rows) {
  if (!c.row_grouped()) {
    return {static_cast<double>(ceil_div(rows, std::int64_t{c.tile_m})), 1};
  }
  // Units of 64 rows are dealt out to the warpgroups in turn.
  const double count = expected(rows, c.tile_m);
  return {count, expected(rows, c.unit_pitch()) * c.unit_pitch() / (count * c.tile_m)};
}

// Bytes that cross the memory for each element of D.
double output_bytes(const GemmConfig& c, const GemmRequest& r) {
  return device::bytes_of(r.out_type) * (reads_c(c) ? 2 : 1);
}

// Megabytes that cross the memory: operands and D.
struct Traffic {
  double inputs, outputs;
};
Traffic traffic_of(const GemmConfig& c, const GemmRequest& r) {
  const double m = static_cast<double>(r.m), n = static_cast<double>(r.n);
  const double megabytes = 1e-6 * static_cast<double>(r.groups);
  return {megabytes * device::bytes_of(r.a_type) * static_cast<double>(r.k) * (m + n),
          megabytes * output_bytes(c, r) * m * n};
}

// Microseconds; the terms are those of tools/fit_heuristics.py.
double predict(const GemmConfig& c, const GemmRequest& r, std::int64_t waves) {
  const FittedGemm& f = fitted_for(c);
  const Traffic traffic = traffic_of(c, r);
  const double bytes = f.terms[0] + traffic.inputs * f.terms[3] + traffic.outputs * f.terms[4];
  const double k_blocks = static_cast<double>(ceil_div(r.k, std::int64_t{c.stage_k()}));
  if (c.grouped()) {
    const double steps = static_cast<double>(waves) * k_blocks;
    return bytes + steps * (f.terms[1] + tiles_of_group(c, r.m).live * f.terms[2]);
  }
  // Of a split the largest share counts. Bringing the sums together is in the fit where the split
  // is; elsewhere it is an estimate.
  const double share = std::ceil(k_blocks / c.cluster_k);
  const double reduction = c.cluster_k == f.cluster_k ? 0 : 0.7 + 0.15 * c.cluster_k;
  // What a wave costs beside its K blocks is mostly its part of D.
  const double wave = f.terms[1] * output_bytes(c, r) / output_bytes_of_kind[f.kind];
  return bytes + static_cast<double>(waves) * (wave + share * f.terms[2]) + reduction;
}

// The table's entry for this config and problem, or null.
const TunedGemm* tuned_for(const GemmConfig& c, const GemmRequest& r) {
  const int kind = kind_of(c);
  const int swept_bytes = kind == 0 || kind == 4 || kind == 8 ? 2 : 4;
  if (r.schedule != device::Schedule::dense || r.groups != 1) return nullptr;
  if (r.num_sms != swept_sms || device::bytes_of(r.out_type) != swept_bytes) return nullptr;
  const std::int64_t row_tiles = ceil_div(r.m, std::int64_t{device::unit_rows});
  for (const TunedGemm& t : tuned_gemm) {
    if (t.row_tiles == row_tiles && t.n == r.n && t.k == r.k && t.kind == kind &&
        t.tile_m == c.tile_m && t.tile_n == c.tile_n && t.consumers == c.consumers &&
        t.cluster_m == c.cluster_m && t.cluster_n == c.cluster_n && t.cluster_k == c.cluster_k &&
        t.ordered == c.ordered) {
      return &t;
    }
  }
  return nullptr;
}

// An operand that few tiles read leaves L2 first. Why: it then pushes out neither the other operand
// nor what others left there dirty, which would be written back meanwhile. M = 128, 7168x16384:
// 39.2 -> 36.2 us; 4096x7168: 14.0 -> 12.6.
void set_l2_policies(GemmChoice& choice, const GemmRequest& r) {
  const auto few = [](std::int64_t extent, int tile) {
    return ceil_div(extent, std::int64_t{tile}) <= 6;
  };
  const bool b_once = r.n >= 2 * r.m && few(r.m, choice.config.tile_m);
  const bool a_once = r.m >= 2 * r.n && few(r.n, choice.config.tile_n);
  if (b_once && !outgrows_l2(r.n, r.k, r.b_type)) choice.b_policy = device::L2Policy::evict_first;
  if (a_once && !outgrows_l2(r.m, r.k, r.a_type)) choice.a_policy = device::L2Policy::evict_first;
}

// Row tiles side by side. Measured: 128x128 tiles of BF16 take 7 % longer along K in bands of 8.
int band_of(const GemmConfig& c) { return c.k_grouped() ? 4 : 8; }

// Where both operands are many times L2, CTAs drift apart along K and less of what a tile reads is
// still there from its neighbours: it counts how often a tile reads each byte. No sweep has such
// problems. 4096x7168x129280 in BF16: 10.6 ms with 128x256 tiles, 14.0 with 128x176.
double reread(const GemmConfig& c, const GemmRequest& r) {
  if (!outgrows_l2(r.m, r.k, r.a_type) || !outgrows_l2(r.n, r.k, r.b_type)) return 1;
  constexpr double least = 1.0 / 256 + 1.0 / 128;  // of the largest tiles
  return (1.0 / c.tile_m + 1.0 / c.tile_n) / least;
}

GemmChoice cost(const GemmConfig& config, const GemmRequest& r) {
  GemmChoice choice;
  choice.config = config;
  const int cluster = config.cluster();
  const std::int64_t clusters_n = ceil_div(r.n, std::int64_t{config.tile_n} * config.cluster_n);
  const std::int64_t resident = std::max(1, r.num_sms / cluster);
  std::int64_t clusters =
      r.groups * clusters_n * ceil_div(r.m, std::int64_t{config.tile_m} * config.cluster_m);
  if (config.grouped()) {
    const double per_group = tiles_of_group(config, r.m).count * static_cast<double>(clusters_n);
    clusters = static_cast<std::int64_t>(std::ceil(per_group * static_cast<double>(r.groups)));
  }
  choice.tiles = clusters * cluster;
  choice.waves = std::max<std::int64_t>(1, ceil_div(clusters, resident));
  // As few CTAs as keep the number of waves: fewer share the power.
  const std::int64_t used = std::max<std::int64_t>(1, ceil_div(clusters, choice.waves));
  choice.grid = static_cast<int>(used) * cluster;
  const TunedGemm* tuned = tuned_for(config, r);
  choice.tuned = tuned != nullptr;
  choice.predicted_us =
      tuned ? double{tuned->us} : predict(config, r, choice.waves) * reread(config, r);
  set_l2_policies(choice, r);
  if (config.grouped()) choice.raster_group = band_of(config);
  if (tuned) {
    choice.raster_group = tuned->raster_group;
    choice.raster_along_n = tuned->raster_along_n != 0;
  }
  return choice;
}

// The policy's raster, and no group wider than its dimension: the kernel multiplies the group by
// the other dimension in 32 bits.
void set_raster(GemmChoice& choice, const GemmRequest& r, const Policy* policy) {
  if (policy) override_with("group", policy->group, choice.raster_group);
  if (policy && policy->raster_along_n) choice.raster_along_n = *policy->raster_along_n;
  const GemmConfig& c = choice.config;
  const std::int64_t inner =
      choice.raster_along_n
          ? ceil_div(r.n, std::int64_t{c.tile_n} * c.cluster_n)
          : ceil_div(std::max(r.m, r.most_m), std::int64_t{c.tile_m} * c.cluster_m);
  choice.raster_group = static_cast<int>(
      std::clamp<std::int64_t>(choice.raster_group, 1, std::max<std::int64_t>(inner, 1)));
}

// A candidate with the policy's fields put in, and how many of them it did not have.
struct Overridden {
  GemmConfig config;
  int changes = 0;
};
Overridden overridden(const GemmConfig& candidate, const Policy& policy) {
  Overridden result{candidate};
  GemmConfig& config = result.config;
  const auto put = [&](const char* name, const std::optional<int>& given, auto& field) {
    const auto before = field;
    override_with(name, given, field);
    if (field != before) ++result.changes;
  };
  put("tile_m", policy.tile_m, config.tile_m);
  put("tile_n", policy.tile_n, config.tile_n);
  put("consumers", policy.consumers, config.consumers);
  put("consumers_n", policy.consumers_n, config.consumers_n);
  put("stages", policy.stages, config.stages);
  put("cluster_m", policy.cluster_m, config.cluster_m);
  put("cluster_n", policy.cluster_n, config.cluster_n);
  put("cluster_k", policy.cluster_k, config.cluster_k);
  if (policy.ordered && *policy.ordered != (config.ordered != 0)) {
    config.ordered = *policy.ordered;
    ++result.changes;
  }
  return result;
}

// A CTA of a split tile has no other tile, and every CTA of the cluster needs a part of K.
bool can_split(const GemmConfig& config, const GemmRequest& r) {
  // Clusters of 4 fit on 120 of an H200's 132 SMs.
  const int sms = config.cluster_k > 2 ? r.num_sms * 10 / 11 : r.num_sms;
  const std::int64_t tiles = r.groups * ceil_div(r.m, std::int64_t{config.tile_m}) *
                             ceil_div(r.n, std::int64_t{config.tile_n});
  return tiles * config.cluster_k <= sms &&
         ceil_div(r.k, std::int64_t{config.stage_k()}) >= config.cluster_k;
}

const char* broken_rule(const GemmConfig& config, const GemmRequest& r) {
  if (const char* rule = device::broken_rule(config)) return rule;
  if (config.cluster() > r.num_sms) return "a cluster holds more CTAs than num_sms";
  if (config.cluster_k > 1 && !can_split(config, r))
    return "K can be split where all tiles run at once and each CTA has a stage of K or more";
  return nullptr;
}

// The same; a changed candidate gives up its split of K, and stages for which there is no room.
GemmConfig with_fields(const GemmConfig& candidate, const Policy& policy, const GemmRequest& r) {
  auto [config, changes] = overridden(candidate, policy);
  if (changes == 0) return config;
  if (!policy.cluster_k) config.cluster_k = 1;
  // Larger tiles may need some of the candidate's stages. broken_rule() also keeps fits() from
  // sizes that it cannot divide.
  while (!policy.stages && config.stages > 2 &&
         (broken_rule(config, r) != nullptr || !config.fits(config.usual_store()))) {
    --config.stages;
  }
  return config;
}

// Of the candidates that the policy changes least, the cheapest that stays legal.
GemmConfig with_policy(const std::vector<GemmChoice>& choices, const Policy& policy,
                       const GemmRequest& r) {
  const auto changes = [&](const GemmChoice& choice) {
    return overridden(choice.config, policy).changes;
  };
  const GemmChoice* best = nullptr;
  for (const GemmChoice& choice : choices) {
    if (best != nullptr && changes(choice) >= changes(*best)) continue;
    if (broken_rule(with_fields(choice.config, policy, r), r) == nullptr) best = &choice;
  }
  if (best != nullptr) return with_fields(best->config, policy, r);
  const auto nearest = std::min_element(
      choices.begin(), choices.end(),
      [&](const GemmChoice& a, const GemmChoice& b) { return changes(a) < changes(b); });
  const GemmConfig config = with_fields(nearest->config, policy, r);
  throw ValueError(complaint("policy", describe(config), "a legal config", broken_rule(config, r)));
}

// Tiles of 256 rows are for groups that fit into one: they read B once. For longer groups 128x256
// ones were up to 18 % faster, which the model does not see: FP8 8 x 512x4096x2048 78 and 66 us.
bool is_too_tall(const GemmConfig& config, const GemmRequest& r) {
  return config.row_grouped() && config.tile_m > 128 && r.m > config.tile_m;
}

// All of them, too tall ones too if `all`.
std::vector<GemmChoice> costed(const GemmRequest& request, bool all) {
  const std::vector<GemmConfig> configs = configs_for(request);
  const bool has_wide = std::any_of(configs.begin(), configs.end(),
                                    [](const GemmConfig& c) { return c.tile_n == 256; });
  std::vector<GemmChoice> choices;
  for (const GemmConfig& config : configs) {
    if (broken_rule(config, request) != nullptr) continue;
    if (!all && has_wide && is_too_tall(config, request)) continue;
    choices.push_back(cost(config, request));
    set_raster(choices.back(), request, nullptr);
  }
  std::sort(choices.begin(), choices.end(), [](const GemmChoice& a, const GemmChoice& b) {
    return a.tuned != b.tuned ? a.tuned : a.predicted_us < b.predicted_us;
  });
  return choices;
}

}  // namespace

std::vector<GemmChoice> candidates(const GemmRequest& request) { return costed(request, false); }

GemmChoice choose(const GemmRequest& request, const Policy* policy) {
  const std::vector<GemmChoice> choices = costed(request, policy != nullptr);
  if (choices.empty()) throw Error("the persistent kernel has no config for this product");
  if (policy == nullptr) return choices.front();
  GemmChoice choice = cost(with_policy(choices, *policy, request), request);
  set_raster(choice, request, policy);
  return choice;
}

}  // namespace deepgemm::heuristics
