// Which config of the persistent kernel computes a product best: the legal ones, what each would
// cost, the cheapest.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deepgemm/gemm.hpp"
#include "device/common/gemm_config.cuh"
#include "device/common/l2_policy.cuh"

namespace deepgemm::heuristics {

// What a choice depends on. Never an address. The set of configs does not depend on M; which of
// them is the cheapest does, through tiles, waves and bytes.
struct GemmRequest {
  std::int64_t m = 0, n = 0, k = 0;
  device::ElementType a_type = device::ElementType::e4m3;
  device::ElementType b_type = device::ElementType::e4m3;
  device::ElementType out_type = device::ElementType::bf16;
  bool scales_by_tma = true;
  device::Epilogue epilogue = device::Epilogue::store;
  bool column_scales = false;  // factors of B per column, else per 128 columns
  bool a_mn_major = false, b_mn_major = false;
  // How many products of the extents above there are: of a batch; of a grouped schedule about,
  // where m is what a group may have in the mean, and most_m what it may have at most.
  device::Schedule schedule = device::Schedule::dense;
  std::int64_t groups = 1, most_m = 0;
  int num_sms = 132;  // that the kernel may occupy, at least 1: no more CTAs than that
};

struct GemmChoice {
  device::GemmConfig config;
  int raster_group = 8;  // 1 to the clusters along its dimension
  bool raster_along_n = false;
  device::L2Policy a_policy = device::L2Policy::evict_normal;
  device::L2Policy b_policy = device::L2Policy::evict_normal;
  int grid = 1;  // CTAs
  std::int64_t tiles = 0, waves = 0;
  double predicted_us = 0;
  bool tuned = false;  // a sweep found it best for this problem; it goes before all others
};

// Every config that choose() can return, over all requests.
const std::vector<device::GemmConfig>& selectable_configs();
// The configs that a request may use, in no order.
std::vector<device::GemmConfig> configs_for(const GemmRequest& request);
// The same, costed, cheapest first, without tiles that are too tall for the groups.
std::vector<GemmChoice> candidates(const GemmRequest& request);
// The cheapest; with a policy, of those that its fields (but num_sms, which is the request's)
// change least the cheapest that stays legal, with them. ValueError names the field or the rule
// they break.
GemmChoice choose(const GemmRequest& request, const Policy* policy = nullptr);
// "256x128x128, 3 stages, 2 consumer warpgroups, cluster 1x2 (A shared), ..."
std::string describe(const device::GemmConfig& config);

}  // namespace deepgemm::heuristics
