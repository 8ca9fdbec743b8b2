// Which decode config reads B fastest: for products of few tokens.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "deepgemm/gemm.hpp"
#include "device/common/decode_config.cuh"
#include "device/common/l2_policy.cuh"

namespace deepgemm::heuristics {

struct DecodeRequest {
  std::int64_t m = 0, n = 0, k = 0;
  device::ElementType a_type = device::ElementType::e4m3;
  device::ElementType b_type = device::ElementType::e4m3;
  device::ElementType out_type = device::ElementType::bf16;
  bool general_epilogue = false;
  int num_sms = 132;
  std::int64_t max_ctas = 0;  // no larger grid: the kernel does not stride; 0: any
};

struct DecodeChoice {
  device::DecodeConfig config;
  std::int64_t grid = 0;          // CTAs
  std::int64_t shared_bytes = 0;  // of a launch
  device::L2Policy b_policy = device::L2Policy::evict_first;
  double predicted_us = 0;
  bool tuned = false;  // a sweep found it best for this problem; it goes before all others
};

inline constexpr int max_decode_tokens = 128;

// Every config that choose() can return.
const std::vector<device::DecodeConfig>& selectable_decode_configs();
// The configs that fit the request, cheapest first. Empty if M is too large, K so long that no
// table of factors fits, or every grid above max_ctas.
std::vector<DecodeChoice> candidates(const DecodeRequest& request);
// The cheapest, with `policy`'s fields (but num_sms, which is the request's) in place of its own;
// ValueError names the field or the rule they break.
// Needs candidates(request) not to be empty.
DecodeChoice choose(const DecodeRequest& request, const Policy* policy = nullptr);
std::string describe(const device::DecodeConfig& config);

}  // namespace deepgemm::heuristics
