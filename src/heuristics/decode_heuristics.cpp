#include "heuristics/decode_heuristics.hpp"

#include <algorithm>
#include <cstring>

#include "core/math.hpp"
#include "core/text.hpp"
#include "deepgemm/error.hpp"

namespace deepgemm::heuristics {
namespace {

using device::DecodeConfig;
using device::ElementType;

struct Shape {
  std::uint8_t consumers, stage_blocks, stages, cluster_k, ctas_per_sm;
};

// Measured on an H200 (docs/performance.md), for each number of tokens.
constexpr Shape shapes_8[] = {
    {1, 2, 3, 1, 3}, {1, 2, 2, 1, 4}, {1, 4, 4, 1, 1}, {1, 4, 2, 2, 2}, {1, 2, 5, 2, 2},
    {1, 2, 5, 4, 2}, {1, 4, 2, 8, 2}, {2, 2, 3, 2, 2}, {2, 2, 3, 4, 2}, {1, 2, 5, 1, 2},
};
constexpr Shape shapes_32[] = {
    {1, 2, 3, 1, 3}, {1, 2, 2, 1, 4}, {1, 2, 4, 1, 2}, {1, 4, 4, 1, 1}, {1, 2, 4, 2, 2},
    {1, 2, 4, 4, 2}, {1, 4, 2, 8, 2}, {2, 2, 2, 2, 2}, {2, 2, 2, 4, 2}, {1, 2, 4, 8, 2},
};
constexpr Shape shapes_64[] = {
    {1, 1, 4, 1, 3}, {1, 2, 2, 1, 3}, {1, 2, 3, 1, 2}, {1, 2, 6, 1, 1}, {1, 2, 2, 2, 2},
    {1, 2, 2, 4, 2}, {1, 2, 4, 8, 1}, {2, 2, 3, 2, 1}, {2, 2, 3, 4, 1}, {1, 2, 5, 2, 1},
};
constexpr Shape shapes_128[] = {
    {1, 1, 3, 1, 2}, {1, 1, 3, 2, 2}, {2, 1, 5, 1, 1}, {2, 1, 5, 2, 1},
    {2, 1, 4, 4, 1}, {1, 1, 6, 4, 1}, {1, 1, 6, 8, 1},
};

struct ShapeList {
  const Shape* begin;
  const Shape* end;
};

int tokens_for(std::int64_t m) {
  for (int tokens : {8, 16, 32, 64, 128}) {
    if (m <= tokens) return tokens;
  }
  return 0;
}

ShapeList shapes_for(int tokens) {
  if (tokens <= 16) return {std::begin(shapes_8), std::end(shapes_8)};
  if (tokens == 32) return {std::begin(shapes_32), std::end(shapes_32)};
  if (tokens == 64) return {std::begin(shapes_64), std::end(shapes_64)};
  return {std::begin(shapes_128), std::end(shapes_128)};
}

std::vector<DecodeConfig> configs_for(int tokens, const DecodeRequest& request) {
  std::vector<DecodeConfig> configs;
  const ShapeList shapes = shapes_for(tokens);
  for (const Shape* s = shapes.begin; s != shapes.end; ++s) {
    DecodeConfig config;
    config.tokens = static_cast<std::uint8_t>(tokens);
    config.consumers = s->consumers;
    config.stage_blocks = s->stage_blocks;
    config.stages = s->stages;
    config.cluster_k = s->cluster_k;
    config.ctas_per_sm = s->ctas_per_sm;
    config.a_type = request.a_type;
    config.b_type = request.b_type;
    config.out_type = request.general_epilogue ? ElementType::f32 : request.out_type;
    config.general_epilogue = request.general_epilogue;
    if (device::broken_rule(config) == nullptr) configs.push_back(config);
  }
  return configs;
}

std::int64_t shared_bytes(const DecodeConfig& config, std::int64_t k) {
  return device::decode_shared_bytes(config, ceil_div(k, device::block_k));
}

bool fits(const DecodeConfig& config, std::int64_t k) {
  const std::int64_t most = device::shared_bytes_per_sm / config.ctas_per_sm - 1024;
  return shared_bytes(config, k) <= std::min<std::int64_t>(most, device::max_shared_bytes);
}

DecodeChoice cost(const DecodeConfig& config, const DecodeRequest& r) {
  DecodeChoice choice;
  choice.config = config;
  choice.shared_bytes = shared_bytes(config, r.k);
  const std::int64_t tiles = ceil_div(r.n, config.rows());
  choice.grid = tiles * config.cluster_k;
  // Why these terms: a launch, one resident wave of reads, and what a wave too many costs.
  constexpr double hbm_bytes_per_us = 4.1e6, fixed_us = 3.0, cluster_us = 0.25;
  const double bytes = static_cast<double>(r.n) * r.k;
  const std::int64_t slots = static_cast<std::int64_t>(r.num_sms) * config.ctas_per_sm;
  const double waves = static_cast<double>(ceil_div(choice.grid, slots));
  const double busy = std::min(1.0, static_cast<double>(choice.grid) / r.num_sms);
  const double in_flight =
      std::min<double>(choice.grid, static_cast<double>(slots)) *
      std::min<double>(
          config.stages * config.stage_blocks,
          static_cast<double>(device::largest_share(config, ceil_div(r.k, device::block_k)))) *
      config.row_block_bytes();
  const double fill = std::min(1.0, in_flight / 6.0e6);
  const double stage_us = 0.12 * config.stage_blocks * (config.tokens >= 64 ? 2 : 1);
  choice.predicted_us = fixed_us +
                        bytes / (hbm_bytes_per_us * std::max(0.05, fill * (0.5 + 0.5 * busy))) +
                        (waves - 1) * 1.5 + stage_us + (config.cluster_k > 1 ? cluster_us : 0);
  return choice;
}

template <class Field>
void override_with(const std::optional<int>& given, Field& field) {
  if (given) field = static_cast<Field>(*given);
}

DecodeConfig overridden(DecodeConfig config, const Policy& policy) {
  override_with(policy.consumers, config.consumers);
  override_with(policy.stage_blocks, config.stage_blocks);
  override_with(policy.stages, config.stages);
  override_with(policy.cluster_k, config.cluster_k);
  override_with(policy.ctas_per_sm, config.ctas_per_sm);
  return config;
}

}  // namespace

const std::vector<DecodeConfig>& selectable_decode_configs() {
  static const std::vector<DecodeConfig> configs = [] {
    std::vector<DecodeConfig> all;
    auto append = [&](const DecodeRequest& request) {
      for (int tokens : {8, 16, 32, 64, 128}) {
        for (const DecodeConfig& config : configs_for(tokens, request)) all.push_back(config);
      }
    };
    DecodeRequest request;
    for (ElementType out : {ElementType::bf16, ElementType::f16, ElementType::f32}) {
      request.out_type = out;
      append(request);
    }
    request.general_epilogue = true;
    append(request);
    return all;
  }();
  return configs;
}

std::vector<DecodeChoice> candidates(const DecodeRequest& request) {
  std::vector<DecodeChoice> choices;
  const int tokens = tokens_for(request.m);
  if (tokens == 0) return choices;
  for (const DecodeConfig& config : configs_for(tokens, request)) {
    if (fits(config, request.k)) choices.push_back(cost(config, request));
  }
  std::sort(choices.begin(), choices.end(), [](const DecodeChoice& a, const DecodeChoice& b) {
    return a.predicted_us < b.predicted_us;
  });
  return choices;
}

DecodeChoice choose(const DecodeRequest& request, const Policy* policy) {
  const std::vector<DecodeChoice> choices = candidates(request);
  if (policy == nullptr) return choices.front();
  for (const DecodeChoice& choice : choices) {
    const DecodeConfig config = overridden(choice.config, *policy);
    if (std::memcmp(&config, &choice.config, sizeof(config)) == 0) return choice;
  }
  const DecodeConfig config = overridden(choices.front().config, *policy);
  const char* rule = device::broken_rule(config);
  if (rule == nullptr && !fits(config, request.k)) {
    rule = "the table of factors for this K does not fit beside the ring";
  }
  if (rule != nullptr) {
    throw ValueError(complaint("policy", describe(config), "a legal config", rule));
  }
  return cost(config, request);
}

std::string describe(const DecodeConfig& c) {
  std::string text =
      join(c.rows(), " rows of B x ", static_cast<int>(c.tokens), " tokens, ",
           static_cast<int>(c.stages), " stages of ", static_cast<int>(c.stage_blocks) * 128,
           " of K, ", static_cast<int>(c.ctas_per_sm), " CTAs per SM");
  if (c.cluster_k > 1) text += join(", K split over ", static_cast<int>(c.cluster_k), " CTAs");
  if (c.general_epilogue) text += ", general epilogue";
  return text;
}

}  // namespace deepgemm::heuristics
