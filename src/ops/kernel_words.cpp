#include "ops/kernel_words.hpp"

#include <cstring>
#include <string_view>

#include "core/text.hpp"
#include "heuristics/decode_heuristics.hpp"
#include "heuristics/gemm_heuristics.hpp"
#include "jit/nvrtc_compiler.hpp"
#include "plan/kernel_specs.hpp"
#include "plan/plan_words.hpp"

namespace deepgemm::ops {
namespace {

using plan::name_of;

template <class Config>
Config config_of(const jit::KernelSpec& spec) {
  Config config;
  std::memcpy(&config, spec.config.data(), sizeof(config));
  return config;
}

std::string words_of(const device::GemmConfig& config) {
  return join(name_of(config.a_type), " x ", name_of(config.b_type), ", out ",
              name_of(config.out_type), ", ", heuristics::describe(config));
}

std::string words_of(const device::DecodeConfig& config) {
  return join(name_of(config.a_type), ", out ", name_of(config.out_type), ", ",
              heuristics::describe(config));
}

std::string words_of(const device::GeneralGroupedConfig& config) {
  return join("groups by ", name_of(config.schedule), ", ", plan::config_words({}));
}

// Messages of src/jit need them, which knows no config.
[[maybe_unused]] const bool given_to_jit = (jit::set_config_words(&config_words), true);

}  // namespace

std::string config_words(const jit::KernelSpec& spec) {
  const std::string_view name = spec.name;
  const auto holds = [&](std::size_t size) { return spec.config.size() == size; };
  if (name.starts_with("dg_")) return plan::quantize_words(spec);
  if (name == "deepgemm_general_gemm") return plan::config_words({});
  if (name == "deepgemm_general_grouped" && holds(sizeof(device::GeneralGroupedConfig)))
    return words_of(config_of<device::GeneralGroupedConfig>(spec));
  if (name.ends_with("_gemm_decode") && holds(sizeof(device::DecodeConfig)))
    return words_of(config_of<device::DecodeConfig>(spec));
  if (name.ends_with("_gemm") && holds(sizeof(device::GemmConfig)))
    return words_of(config_of<device::GemmConfig>(spec));
  return {};
}

}  // namespace deepgemm::ops
