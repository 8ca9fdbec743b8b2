// What a config would cost, and the choice of the cheapest.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/math.hpp"
#include "core/text.hpp"
#include "deepgemm/error.hpp"
#include "heuristics/gemm_heuristics.hpp"

namespace deepgemm::heuristics {
namespace {

using device::GemmConfig;

// Constants of an H200 at the clock that FP8 work settles at (docs/performance.md).
constexpr double clock_ghz = 1.6;
constexpr double tensor_flop_per_clock = 8192;  // of one SM, dense FP8
constexpr double fill_bytes_per_clock = 60;     // L2 to shared memory, one SM
constexpr double hbm_bytes_per_us = 4.1e6;
constexpr double launch_us = 4.0;    // launch, first data, drain
constexpr double tile_clocks = 900;  // epilogue and refill that nothing hides

// Share of the tensor core's rate that the inner loop reaches when data is there.
double tensor_efficiency(const GemmConfig& c) {
  double efficiency = c.consumers == 1 ? 0.55 : 0.84;
  if (c.ordered) efficiency = 0.91;
  if (c.tile_n < 96) efficiency *= 0.8;
  return efficiency;
}

// Bytes that one CTA's fill costs L2 per K block; a shared operand is read once for two CTAs.
double fill_bytes(const GemmConfig& c) {
  return c.a_bytes() * (c.cluster_n > 1 ? 0.6 : 1.0) + c.b_bytes() * (c.cluster_m > 1 ? 0.6 : 1.0);
}

double block_clocks(const GemmConfig& c) {
  const double math =
      2.0 * c.tile_m * c.tile_n * device::block_k / tensor_flop_per_clock / tensor_efficiency(c);
  const double fill = fill_bytes(c) / fill_bytes_per_clock;
  // Why not the maximum: where both are close, each waits for the other now and then.
  return std::pow(std::pow(math, 4) + std::pow(fill, 4), 0.25);
}

GemmChoice cost(const GemmConfig& config, const GemmRequest& r) {
  GemmChoice choice;
  choice.config = config;
  const int cluster = config.cluster();
  const std::int64_t clusters_m = ceil_div(r.m, std::int64_t{config.tile_m} * config.cluster_m);
  const std::int64_t clusters_n = ceil_div(r.n, std::int64_t{config.tile_n} * config.cluster_n);
  const std::int64_t clusters = clusters_m * clusters_n;
  const std::int64_t resident = std::max(1, r.num_sms / cluster);
  choice.tiles = clusters * cluster;
  choice.waves = ceil_div(clusters, resident);
  // As few CTAs as keep the number of waves: fewer share the power.
  const std::int64_t used = std::max<std::int64_t>(1, ceil_div(clusters, choice.waves));
  choice.grid = static_cast<int>(used) * cluster;
  const double k_blocks = static_cast<double>(ceil_div(r.k, device::block_k));
  const double tile_us = (k_blocks * block_clocks(config) + tile_clocks) / clock_ghz / 1e3;
  const double out_bytes = device::bytes_of(r.out_type);
  const double hbm_us = (static_cast<double>(r.m) * r.k + static_cast<double>(r.n) * r.k +
                         static_cast<double>(r.m) * r.n * out_bytes) /
                        hbm_bytes_per_us;
  choice.predicted_us = launch_us + std::max(choice.waves * tile_us, hbm_us);
  choice.raster_along_n = config.cluster_m == 1 && config.tile_m > config.tile_n;
  choice.raster_group = 8;
  return choice;
}

template <class Field>
void override_with(const std::optional<int>& given, Field& field) {
  if (given) field = static_cast<Field>(*given);
}

GemmConfig overridden(GemmConfig config, const Policy& policy) {
  override_with(policy.tile_m, config.tile_m);
  override_with(policy.tile_n, config.tile_n);
  override_with(policy.consumers, config.consumers);
  override_with(policy.consumers_n, config.consumers_n);
  override_with(policy.stages, config.stages);
  override_with(policy.cluster_m, config.cluster_m);
  override_with(policy.cluster_n, config.cluster_n);
  if (policy.ordered) config.ordered = *policy.ordered;
  return config;
}

// The cheapest candidate that already has the policy's fields, else the cheapest with them put in.
GemmConfig with_policy(const std::vector<GemmChoice>& choices, const Policy& policy) {
  for (const GemmChoice& choice : choices) {
    const GemmConfig config = overridden(choice.config, policy);
    if (std::memcmp(&config, &choice.config, sizeof(config)) == 0) return config;
  }
  GemmConfig config = overridden(choices.front().config, policy);
  while (!policy.stages && config.stages > 2 &&
         device::shared_map(config).total > device::max_shared_bytes) {
    --config.stages;
  }
  if (const char* rule = device::broken_rule(config)) {
    throw ValueError(complaint("policy", describe(config), "a legal config", rule));
  }
  return config;
}

}  // namespace

std::vector<GemmChoice> candidates(const GemmRequest& request) {
  std::vector<GemmChoice> choices;
  for (const GemmConfig& config : configs_for(request)) choices.push_back(cost(config, request));
  std::sort(choices.begin(), choices.end(), [](const GemmChoice& a, const GemmChoice& b) {
    return a.predicted_us < b.predicted_us;
  });
  return choices;
}

GemmChoice choose(const GemmRequest& request, const Policy* policy) {
  GemmRequest limited = request;
  if (policy && policy->num_sms) limited.num_sms = std::min(*policy->num_sms, request.num_sms);
  const std::vector<GemmChoice> choices = candidates(limited);
  if (policy == nullptr) return choices.front();
  GemmChoice choice = cost(with_policy(choices, *policy), limited);
  override_with(policy->group, choice.raster_group);
  if (policy->raster_along_n) choice.raster_along_n = *policy->raster_along_n;
  if (policy->group && *policy->group < 1) {
    throw ValueError(complaint("policy.group", to_text(*policy->group), "at least 1"));
  }
  return choice;
}

}  // namespace deepgemm::heuristics
