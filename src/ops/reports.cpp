// explain, prepare and the list of selectable kernels.
#include "ops/reports.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "core/text.hpp"
#include "deepgemm/runtime.hpp"
#include "ops/batches.hpp"
#include "plan/gemm_plan.hpp"
#include "plan/hopper.hpp"
#include "plan/kernel_specs.hpp"

namespace deepgemm {
namespace {

constexpr int h200_sms = 132;
constexpr const char* general_config = "64x64 tile, FP32 FMA";

void add_fields(KernelReport& report, const plan::GemmPlan& p) {
  const heuristics::GemmChoice& choice = p.choice;
  auto field = [&](const char* key, std::string value) {
    report.fields.emplace_back(key, std::move(value));
  };
  field("tile", join(static_cast<int>(choice.config.tile_m), "x",
                     static_cast<int>(choice.config.tile_n), "x", choice.config.stage_k()));
  field("tiles", to_text(choice.tiles));
  field("waves", to_text(choice.waves));
  field("raster", join(choice.raster_group, choice.raster_along_n ? " along N" : " along M"));
  if (choice.a_policy == device::L2Policy::evict_first) field("L2", "a leaves first");
  if (choice.b_policy == device::L2Policy::evict_first) field("L2", "b leaves first");
  field("predicted_us", to_text(choice.predicted_us));
}

}  // namespace

KernelReport ops::report_of(const plan::GemmPlan& p) {
  KernelReport report;
  report.kernel = p.spec.name;
  report.reason = p.reason;
  report.shared_bytes = p.shared_bytes;
  report.threads = p.threads;
  report.grid = static_cast<int>(p.grid);
  if (p.kernel == plan::GemmKernel::persistent) {
    report.config = heuristics::describe(p.choice.config);
    report.stages = p.choice.config.stages;
    add_fields(report, p);
  } else if (p.kernel == plan::GemmKernel::decode) {
    report.config = heuristics::describe(p.decode.config);
    report.stages = p.decode.config.stages;
    report.fields.emplace_back("predicted_us", to_text(p.decode.predicted_us));
  } else {
    report.config = general_config;
  }
  return report;
}

namespace {

using ops::report_of;

plan::SmBudget budget_of(const ReportOptions& options) {
  const int present = options.device < 0 ? h200_sms : plan::hopper_device(options.device).sm_count;
  return plan::sm_budget(present, options.num_sms, options.policy);
}

plan::GemmPlan plan_of(const GemmProblem& problem, const GemmArgs& args,
                       const ReportOptions& options) {
  const ops::FirstProduct first = ops::first_product(args, problem);
  return plan::make_gemm_plan(problem, first.changed ? *first.changed : args, options.policy,
                              budget_of(options), first.batch);
}

CandidateReport candidate(const heuristics::GemmChoice& choice) {
  const device::GemmConfig& c = choice.config;
  return {"persistent",
          heuristics::describe(c),
          choice.predicted_us,
          {{"tile_m", c.tile_m},
           {"tile_n", c.tile_n},
           {"consumers", c.consumers},
           {"consumers_n", c.consumers_n},
           {"stages", c.stages},
           {"cluster_m", c.cluster_m},
           {"cluster_n", c.cluster_n},
           {"cluster_k", c.cluster_k},
           {"ordered", c.ordered}}};
}

CandidateReport candidate(const heuristics::DecodeChoice& choice) {
  const device::DecodeConfig& c = choice.config;
  return {"decode",
          heuristics::describe(c),
          choice.predicted_us,
          {{"consumers", c.consumers},
           {"stage_blocks", c.stage_blocks},
           {"stages", c.stages},
           {"cluster_k", c.cluster_k},
           {"ctas_per_sm", c.ctas_per_sm}}};
}

std::vector<CandidateReport> candidates_of(const GemmArgs& args, const ReportOptions& options) {
  const GemmProblem problem = make_problem(args);
  const ops::FirstProduct first = ops::first_product(args, problem);
  const plan::GemmCandidates found = plan::gemm_candidates(
      problem, first.changed ? *first.changed : args, budget_of(options), first.batch);
  std::vector<CandidateReport> persistent, decode, reports;
  for (const auto& choice : found.persistent) persistent.push_back(candidate(choice));
  for (const auto& choice : found.decode) decode.push_back(candidate(choice));
  // Each list keeps its order: a tuned config stays before those that are predicted to be faster.
  std::merge(persistent.begin(), persistent.end(), decode.begin(), decode.end(),
             std::back_inserter(reports),
             [](const auto& a, const auto& b) { return a.predicted_us < b.predicted_us; });
  return reports;
}

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
  all.push_back({plan::general_gemm_spec(), general_config, device::GeneralConfig::threads});
  using device::GroupSchedule;
  for (GroupSchedule schedule : {GroupSchedule::rows, GroupSchedule::labels, GroupSchedule::k}) {
    all.push_back({plan::general_grouped_spec({schedule}),
                   join("groups by ", plan::name_of(schedule), ", ", general_config),
                   device::GeneralConfig::threads});
  }
  for (int k_per_scale : {0, 32, 128}) {
    for (bool whole_cta : {false, true}) {
      for (bool e5m2 : {false, true}) {
        device::QuantizeConfig config;
        config.k_per_scale = static_cast<std::uint16_t>(k_per_scale);
        config.whole_cta = whole_cta;
        config.values_e5m2 = e5m2;
        all.push_back(
            {plan::quantize_spec(config),
             join(k_per_scale ? to_text(k_per_scale) : std::string("any"), " of K per scale, ",
                  whole_cta ? "CTA" : "warp", " per block, ", e5m2 ? "e5m2" : "e4m3"),
             device::QuantizeConfig::threads});
      }
    }
  }
  all.push_back({plan::dequantize_spec(), "any", device::QuantizeConfig::threads});
  return all;
}

}  // namespace

KernelReport explain(const GemmArgs& args, const ReportOptions& options) {
  const GemmProblem problem = make_problem(args);
  KernelReport report = report_of(plan_of(problem, args, options));
  if (problem.batch != 1) report.fields.emplace_back("batch", to_text(problem.batch));
  report.candidates = candidates_of(args, options);
  return report;
}

KernelReport prepare(const GemmArgs& args, const ReportOptions& options) {
  const plan::GemmPlan p = plan_of(make_problem(args), args, options);
  KernelReport report = report_of(p);
  if (options.device < 0 || !options.load) {
    const jit::Cubin cubin = jit::get_cubin(p.spec);
    report.origin = jit::name(cubin.origin);
    report.milliseconds = cubin.milliseconds;
  } else {
    const jit::LoadedKernel& kernel = jit::load(p.spec, options.device);
    report.origin = jit::name(kernel.origin);
    report.milliseconds = kernel.milliseconds;
  }
  return report;
}

std::vector<KernelReport> selectable_kernels() {
  std::vector<KernelReport> reports;
  for (const Selectable& s : all_selectable()) {
    KernelReport report;
    report.kernel = s.spec.name;
    report.config = s.config;
    report.shared_bytes = s.spec.shared_bytes;
    report.threads = s.threads;
    reports.push_back(std::move(report));
  }
  return reports;
}

CompileReport compile_selectable(std::size_t index) {
  const std::vector<Selectable> all = all_selectable();
  if (index >= all.size()) {
    throw ValueError(complaint("index", to_text(static_cast<std::int64_t>(index)),
                               join("less than ", static_cast<std::int64_t>(all.size()))));
  }
  jit::Cubin cubin = jit::compile(all[index].spec);
  CompileReport report;
  report.kernel = all[index].spec.name;
  report.config = all[index].config;
  report.log = std::move(cubin.log);
  report.milliseconds = cubin.milliseconds;
  report.cubin_bytes = cubin.bytes.size();
  report.cubin = std::move(cubin.bytes);
  return report;
}

}  // namespace deepgemm
