#include "heuristics/decode_heuristics.hpp"

#include <algorithm>
#include <cstring>

#include "core/math.hpp"
#include "core/text.hpp"
#include "deepgemm/error.hpp"
#include "heuristics/fitted_decode_h200.hpp"
#include "heuristics/fitted_h200.hpp"
#include "heuristics/large_operand.hpp"
#include "heuristics/policy_fields.hpp"

namespace deepgemm::heuristics {
namespace {

using device::DecodeConfig;
using device::ElementType;

int tokens_for(std::int64_t m) {
  for (int tokens : {8, 16, 32, 64, 128}) {
    if (m <= tokens) return tokens;
  }
  return 0;
}

DecodeConfig make_config(const FittedDecode& f, const DecodeRequest& request) {
  DecodeConfig config;
  config.tokens = static_cast<std::uint8_t>(f.tokens);
  config.consumers = static_cast<std::uint8_t>(f.consumers);
  config.stage_blocks = static_cast<std::uint8_t>(f.stage_blocks);
  config.stages = static_cast<std::uint8_t>(f.stages);
  config.cluster_k = static_cast<std::uint8_t>(f.cluster_k);
  config.ctas_per_sm = static_cast<std::uint8_t>(f.ctas_per_sm);
  config.a_type = request.a_type;
  config.b_type = request.b_type;
  config.out_type = request.general_epilogue ? ElementType::f32 : request.out_type;
  config.general_epilogue = request.general_epilogue;
  // The general epilogue needs a buffer: give up stages until it fits.
  while (config.stages > 1 && device::broken_rule(config) != nullptr) --config.stages;
  return config;
}

// For a B of 16-bit operands that is many times L2, as that of a vocabulary is: boxes of one block,
// and as many as fit. 1x129280x7168: 448 -> 428 us.
constexpr FittedDecode large_b_shapes[] = {
    {8, 1, 1, 6, 1, 4, {2.5F, 0, 0, 0, 0.23F, 0, 0, 0}},
    {16, 1, 1, 5, 1, 4, {2.5F, 0, 0, 0, 0.23F, 0, 0, 0}},
};

bool has_large_b(const DecodeRequest& r) { return outgrows_l2(r.n, r.k, r.b_type); }

bool same(const DecodeConfig& a, const DecodeConfig& b) {
  return std::memcmp(&a, &b, sizeof a) == 0;  // all of them bytes
}

// The measured shapes are the candidates. Calls f(config, its coefficients, whether it goes before
// the others), once for those that the general epilogue leaves the same stages.
template <class Function>
void for_each_config(int tokens, const DecodeRequest& request, bool large_b, Function&& function) {
  std::vector<DecodeConfig> offered;
  const auto offer = [&](const FittedDecode& fitted, bool first) {
    if (fitted.tokens != tokens) return;
    const DecodeConfig config = make_config(fitted, request);
    if (device::broken_rule(config) != nullptr) return;
    if (std::any_of(offered.begin(), offered.end(),
                    [&](const DecodeConfig& other) { return same(config, other); })) {
      return;
    }
    offered.push_back(config);
    function(config, fitted, first);
  };
  for (const FittedDecode& fitted : fitted_decode) offer(fitted, false);
  if (!large_b || device::bytes_of(request.b_type) != 2) return;
  for (const FittedDecode& fitted : large_b_shapes) offer(fitted, true);
}

std::int64_t blocks_of(std::int64_t k, const DecodeConfig& config) {
  return ceil_div(k, std::int64_t{config.block_elements()});
}

std::int64_t shared_bytes(const DecodeConfig& config, std::int64_t k) {
  return device::decode_shared_bytes(config, blocks_of(k, config));
}

std::int64_t grid_of(const DecodeConfig& config, std::int64_t n) {
  return ceil_div(n, std::int64_t{config.rows()}) * config.cluster_k;
}

// nullptr if a legal config can take the request, else why not.
const char* misfit(const DecodeConfig& config, const DecodeRequest& r) {
  const std::int64_t most = device::shared_bytes_per_sm / config.ctas_per_sm - 1024;
  if (shared_bytes(config, r.k) > std::min<std::int64_t>(most, device::max_shared_bytes)) {
    return "the table of factors for this K does not fit beside the ring";
  }
  if (r.max_ctas > 0 && grid_of(config, r.n) > r.max_ctas) {
    return "it needs more CTAs than num_sms, and each CTA has one piece of work";
  }
  return nullptr;
}

DecodeChoice choice_of(const DecodeConfig& config, const DecodeRequest& r) {
  DecodeChoice choice;
  choice.config = config;
  choice.shared_bytes = shared_bytes(config, r.k);
  choice.grid = grid_of(config, r.n);
  if (has_large_b(r)) choice.b_policy = device::L2Policy::evict_normal;
  return choice;
}

// Microseconds; the terms are those of tools/fit_heuristics.py, fitted to FP8: what counts are
// bytes, and blocks of 128 bytes.
double predict(const DecodeConfig& c, const float (&terms)[8], const DecodeRequest& r,
               std::int64_t grid) {
  // Clusters of 4 and 8 do not tile the SMs.
  const std::int64_t lost = c.cluster_k <= 2 ? 0 : c.ctas_per_sm == 1 ? 12 : 8;
  const std::int64_t sms = std::max<std::int64_t>(1, r.num_sms - lost);
  const double waves = static_cast<double>(ceil_div(grid, sms * c.ctas_per_sm));
  const std::int64_t all_steps = ceil_div(blocks_of(r.k, c), std::int64_t{c.stage_blocks});
  const double steps = static_cast<double>(ceil_div(all_steps, std::int64_t{c.cluster_k}));
  const double sharing = static_cast<double>(
      std::min<std::int64_t>(c.ctas_per_sm, ceil_div(grid, std::int64_t{r.num_sms})));
  const double megabytes =
      1e-6 * static_cast<double>(r.n) * static_cast<double>(r.k) * device::bytes_of(r.b_type);
  const double values[8] = {1,
                            waves - 1,
                            steps,
                            waves * steps,
                            megabytes,
                            sharing * steps,
                            std::max(0.0, steps - c.stages),
                            waves * sharing};
  double us = 0;
  for (int i = 0; i < 8; ++i) us += values[i] * static_cast<double>(terms[i]);
  return us;
}

// The table's entry for this config and problem, or null.
const TunedDecode* tuned_for(const FittedDecode& f, const DecodeRequest& r) {
  if (r.num_sms != swept_sms) return nullptr;
  const std::int64_t row_bytes = r.k * device::bytes_of(r.b_type);
  for (const TunedDecode& t : tuned_decode) {
    if (t.tokens == f.tokens && t.n == r.n && t.k == row_bytes && t.consumers == f.consumers &&
        t.stage_blocks == f.stage_blocks && t.stages == f.stages && t.cluster_k == f.cluster_k &&
        t.ctas_per_sm == f.ctas_per_sm) {
      return &t;
    }
  }
  return nullptr;
}

DecodeConfig overridden(DecodeConfig config, const Policy& policy) {
  override_with("consumers", policy.consumers, config.consumers);
  override_with("stage_blocks", policy.stage_blocks, config.stage_blocks);
  override_with("stages", policy.stages, config.stages);
  override_with("cluster_k", policy.cluster_k, config.cluster_k);
  override_with("ctas_per_sm", policy.ctas_per_sm, config.ctas_per_sm);
  return config;
}

}  // namespace

const std::vector<DecodeConfig>& selectable_decode_configs() {
  static const std::vector<DecodeConfig> configs = [] {
    std::vector<DecodeConfig> all;
    auto append = [&](const DecodeRequest& request) {
      for (int tokens : {8, 16, 32, 64, 128}) {
        for_each_config(
            tokens, request, true,
            [&](const DecodeConfig& config, const FittedDecode&, bool) { all.push_back(config); });
      }
    };
    auto append_all = [&](ElementType in, std::initializer_list<ElementType> outs) {
      DecodeRequest request;
      request.a_type = request.b_type = in;
      for (ElementType out : outs) {
        request.out_type = out;
        append(request);
      }
      request.general_epilogue = true;
      append(request);
    };
    append_all(ElementType::e4m3, {ElementType::bf16, ElementType::f16, ElementType::f32});
    append_all(ElementType::bf16, {ElementType::bf16, ElementType::f32});
    append_all(ElementType::f16, {ElementType::f16});
    return all;
  }();
  return configs;
}

std::vector<DecodeChoice> candidates(const DecodeRequest& request) {
  std::vector<DecodeChoice> choices;
  const auto weigh = [&](const DecodeConfig& config, const FittedDecode& fitted, bool first) {
    if (misfit(config, request) != nullptr) return;
    DecodeChoice choice = choice_of(config, request);
    // What a large B's own shapes are predicted to take needs every SM full.
    if (first && choice.grid < std::int64_t{request.num_sms} * config.ctas_per_sm) return;
    const TunedDecode* tuned = tuned_for(fitted, request);
    choice.tuned = first || tuned != nullptr;
    choice.predicted_us =
        tuned ? double{tuned->us} : predict(config, fitted.terms, request, choice.grid);
    choices.push_back(choice);
  };
  for_each_config(tokens_for(request.m), request, has_large_b(request), weigh);
  std::sort(choices.begin(), choices.end(), [](const DecodeChoice& a, const DecodeChoice& b) {
    return a.tuned != b.tuned ? a.tuned : a.predicted_us < b.predicted_us;
  });
  return choices;
}

DecodeChoice choose(const DecodeRequest& request, const Policy* policy) {
  const std::vector<DecodeChoice> choices = candidates(request);
  if (policy == nullptr) return choices.front();
  for (const DecodeChoice& choice : choices) {
    const DecodeConfig config = overridden(choice.config, *policy);
    if (same(config, choice.config)) return choice;
  }
  const DecodeConfig config = overridden(choices.front().config, *policy);
  const char* rule = device::broken_rule(config);
  if (rule == nullptr) rule = misfit(config, request);
  if (rule != nullptr) {
    throw ValueError(complaint("policy", describe(config), "a legal config", rule));
  }
  return choice_of(config, request);
}

std::string describe(const DecodeConfig& c) {
  std::string text = join(
      c.rows(), " rows of B x ", static_cast<int>(c.tokens), " tokens, ",
      static_cast<int>(c.stages), " stages of ", c.stage_blocks * c.block_elements(), " of K, ",
      static_cast<int>(c.ctas_per_sm), c.ctas_per_sm == 1 ? " CTA per SM" : " CTAs per SM");
  if (c.cluster_k > 1) text += join(", K split over ", static_cast<int>(c.cluster_k), " CTAs");
  if (c.general_epilogue) text += ", general epilogue";
  return text;
}

}  // namespace deepgemm::heuristics
