// Every kernel that the library can select, for the compile gate and the bundle.
#include <string>
#include <utility>
#include <vector>

#include "core/text.hpp"
#include "deepgemm/cache.hpp"
#include "deepgemm/runtime.hpp"
#include "heuristics/decode_heuristics.hpp"
#include "heuristics/gemm_heuristics.hpp"
#include "jit/cubin_source.hpp"
#include "jit/kernel_key.hpp"
#include "jit/nvrtc_compiler.hpp"
#include "plan/kernel_specs.hpp"
#include "plan/plan_words.hpp"

namespace deepgemm {
namespace {

struct Selectable {
  jit::KernelSpec spec;
  std::string config;
  int threads;
};

std::vector<Selectable> all_selectable() {
  std::vector<Selectable> all;
  for (const device::GemmConfig& config : heuristics::selectable_configs()) {
    const std::string types =
        join(plan::name_of(config.a_type), " x ", plan::name_of(config.b_type), ", out ",
             plan::name_of(config.out_type), ", ");
    all.push_back({plan::persistent_gemm_spec(config), types + heuristics::describe(config),
                   config.threads()});
  }
  for (const device::DecodeConfig& config : heuristics::selectable_decode_configs()) {
    all.push_back({plan::decode_spec(config),
                   join(plan::name_of(config.a_type), ", out ", plan::name_of(config.out_type),
                        ", ", heuristics::describe(config)),
                   config.threads()});
  }
  all.push_back(
      {plan::general_gemm_spec(), plan::config_words({}), device::GeneralConfig::threads});
  using device::GroupSchedule;
  for (GroupSchedule schedule : {GroupSchedule::rows, GroupSchedule::labels, GroupSchedule::k}) {
    all.push_back({plan::general_grouped_spec({schedule}),
                   join("groups by ", plan::name_of(schedule), ", ", plan::config_words({})),
                   device::GeneralConfig::threads});
  }
  for (int k_per_scale : {0, 32, 128}) {
    for (bool whole_cta : {false, true}) {
      for (bool e5m2 : {false, true}) {
        device::QuantizeConfig config;
        config.k_per_scale = static_cast<std::uint16_t>(k_per_scale);
        config.whole_cta = whole_cta;
        config.values_e5m2 = e5m2;
        const jit::KernelSpec spec = plan::quantize_spec(config);
        all.push_back({spec, plan::quantize_words(spec), device::QuantizeConfig::threads});
      }
    }
  }
  const jit::KernelSpec dequantize = plan::dequantize_spec();
  all.push_back({dequantize, plan::quantize_words(dequantize), device::QuantizeConfig::threads});
  const jit::KernelSpec layout = plan::scale_layout_spec();
  all.push_back({layout, plan::quantize_words(layout), device::ScaleLayoutConfig::threads});
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
    report.config = s.config;
    report.identity = jit::describe(s.spec);
    report.shared_bytes = s.spec.shared_bytes;
    report.threads = s.threads;
  }
  return reports;
}

CompileReport compile_selectable(std::size_t index) {
  const Selectable chosen = selectable(index);
  jit::Cubin cubin = jit::compile(chosen.spec);
  return {chosen.spec.name,   chosen.config,      std::move(cubin.log),
          cubin.milliseconds, cubin.bytes.size(), std::move(cubin.bytes)};
}

BundledKernel kernel_for_bundle(std::size_t index) {
  const Selectable chosen = selectable(index);
  jit::Cubin cubin = jit::compile_for_bundle(chosen.spec);
  return {.kernel = chosen.spec.name,
          .config = chosen.config,
          .family = jit::family_key(chosen.spec),
          .origin = std::string(jit::name(cubin.origin)),
          .milliseconds = cubin.milliseconds,
          .cubin = std::move(cubin.bytes)};
}

}  // namespace deepgemm
