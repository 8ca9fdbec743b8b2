// Every kernel that the library can select, for the compile gate and the bundle.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "deepgemm/cache.hpp"
#include "deepgemm/runtime.hpp"
#include "heuristics/decode_heuristics.hpp"
#include "heuristics/gemm_heuristics.hpp"
#include "jit/cubin_source.hpp"
#include "jit/disk_cache.hpp"
#include "jit/kernel_key.hpp"
#include "jit/nvrtc_compiler.hpp"
#include "ops/kernel_words.hpp"
#include "plan/kernel_specs.hpp"

namespace deepgemm {
namespace {

struct Selectable {
  jit::KernelSpec spec;
  int threads;
};

std::vector<Selectable> all_selectable() {
  std::vector<Selectable> all;
  for (const device::GemmConfig& config : heuristics::selectable_configs())
    all.push_back({plan::persistent_gemm_spec(config), config.threads()});
  for (const device::DecodeConfig& config : heuristics::selectable_decode_configs())
    all.push_back({plan::decode_spec(config), config.threads()});
  all.push_back({plan::general_gemm_spec(), device::GeneralConfig::threads});
  using device::GroupSchedule;
  for (GroupSchedule schedule : {GroupSchedule::rows, GroupSchedule::labels, GroupSchedule::k})
    all.push_back({plan::general_grouped_spec({schedule}), device::GeneralConfig::threads});
  for (int k_per_scale : {0, 32, 128}) {
    for (bool whole_cta : {false, true}) {
      for (bool e5m2 : {false, true}) {
        device::QuantizeConfig config;
        config.k_per_scale = static_cast<std::uint16_t>(k_per_scale);
        config.whole_cta = whole_cta;
        config.values_e5m2 = e5m2;
        all.push_back({plan::quantize_spec(config), device::QuantizeConfig::threads});
      }
    }
  }
  all.push_back({plan::dequantize_spec(), device::QuantizeConfig::threads});
  all.push_back({plan::scale_layout_spec(), device::ScaleLayoutConfig::threads});
  return all;
}

Selectable selectable(std::size_t index) {
  std::vector<Selectable> all = all_selectable();
  if (index >= all.size()) {
    throw ValueError(complaint("index", to_text(static_cast<std::int64_t>(index)),
                               join("less than ", static_cast<std::int64_t>(all.size()))));
  }
  return std::move(all[index]);
}

}  // namespace

std::vector<KernelReport> selectable_kernels() {
  std::vector<KernelReport> reports;
  for (const Selectable& s : all_selectable()) {
    KernelReport& report = reports.emplace_back();
    report.kernel = s.spec.name;
    report.config = ops::config_words(s.spec);
    report.identity = jit::identity(s.spec);
    report.shared_bytes = s.spec.shared_bytes;
    report.threads = s.threads;
  }
  return reports;
}

CompileReport compile_selectable(std::size_t index) {
  const Selectable chosen = selectable(index);
  jit::Cubin cubin = jit::compile(chosen.spec);
  return {chosen.spec.name,     ops::config_words(chosen.spec),
          std::move(cubin.log), cubin.milliseconds,
          cubin.bytes.size(),   std::move(cubin.bytes)};
}

BundledKernel kernel_for_bundle(std::size_t index) {
  const Selectable chosen = selectable(index);
  jit::Cubin cubin = jit::compile_for_bundle(chosen.spec);
  return {.kernel = chosen.spec.name,
          .config = ops::config_words(chosen.spec),
          .family = jit::family_key(chosen.spec),
          .origin = std::string(jit::name(cubin.origin)),
          .milliseconds = cubin.milliseconds,
          .cubin = std::move(cubin.bytes)};
}

std::vector<std::string> configs_of(const std::vector<CacheEntry>& entries) {
  std::vector<std::string> configs(entries.size());
  if (entries.empty()) return configs;
  std::map<std::string, std::string> known;
  for (const Selectable& s : all_selectable()) {
    known.emplace(jit::family_prefix(s.spec.name, jit::family_key(s.spec)),
                  ops::config_words(s.spec));
  }
  const std::size_t tail = jit::family_prefix("", std::string(32, '0')).size();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    // The kernel's name, then what every prefix has; an entry's own words may be damaged.
    const std::string& file = entries[i].file;
    const auto found = known.find(file.substr(0, file.find('-') + tail));
    if (found != known.end()) configs[i] = found->second;
  }
  return configs;
}

}  // namespace deepgemm
