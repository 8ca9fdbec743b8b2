// explain and prepare.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>

#include "core/text.hpp"
#include "deepgemm/runtime.hpp"
#include "jit/nvrtc_compiler.hpp"
#include "ops/batches.hpp"
#include "ops/checks.hpp"
#include "ops/grouped_calls.hpp"
#include "ops/stacks.hpp"
#include "plan/cuda_backend.hpp"
#include "plan/gemm_plan.hpp"
#include "plan/grouped_plan.hpp"
#include "plan/hopper.hpp"
#include "plan/kernel_specs.hpp"
#include "plan/plan_words.hpp"

namespace deepgemm {
namespace {

constexpr int h200_sms = 132;

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

KernelReport report_of(const plan::GemmPlan& p) {
  KernelReport report;
  report.kernel = p.spec.name;
  report.config = plan::config_words(p);
  report.identity = jit::identity(p.spec);
  report.reason = p.reason;
  report.shared_bytes = p.shared_bytes;
  report.threads = p.threads;
  report.grid = static_cast<int>(p.grid);
  if (p.kernel == plan::GemmKernel::persistent) {
    report.stages = p.choice.config.stages;
    add_fields(report, p);
  } else if (p.kernel == plan::GemmKernel::decode) {
    report.stages = p.decode.config.stages;
    report.fields.emplace_back("predicted_us", to_text(p.decode.predicted_us));
  }
  return report;
}

plan::SmBudget budget_of(const ReportOptions& options) {
  const int present = options.device_sms > 0 ? options.device_sms
                      : options.device < 0   ? h200_sms
                                             : plan::hopper_device(options.device).sm_count;
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
          choice.tuned,
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
          choice.tuned,
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

// Compiles or finds a kernel, and loads it if that is asked for. A report of several kernels keeps
// the origin that cost most.
void get_kernel(const jit::KernelSpec& spec, const ReportOptions& options, KernelReport& report) {
  jit::Origin origin{};
  double milliseconds = 0;
  if (options.device < 0 || !options.load) {
    const jit::Cubin cubin = jit::get_cubin(spec);
    origin = cubin.origin;
    milliseconds = cubin.milliseconds;
  } else {
    const jit::LoadedKernel& kernel = jit::load(spec, options.device);
    origin = kernel.origin;
    milliseconds = kernel.milliseconds;
  }
  if (report.origin.empty() || milliseconds > report.milliseconds) {
    report.origin = jit::name(origin);
    report.milliseconds = milliseconds;
  }
}

template <class Args>
KernelReport report_groups(const Args& args, const ReportOptions& options, bool get) {
  const std::optional<plan::GroupedCall> call = ops::grouped_call_of(args);
  if (!call) {
    KernelReport nothing;
    nothing.reason = "the product is empty";
    return nothing;
  }
  const plan::GemmPlan p = plan::choose_grouped_plan(*call, options.policy, budget_of(options));
  KernelReport report = report_of(p);
  report.fields.emplace_back("groups", to_text(call->layout.groups));
  if (get) get_kernel(p.spec, options, report);
  return report;
}

jit::KernelSpec quantize_kernel(const TensorView& values, const Granularity& granularity) {
  if (!is_float8(values.dtype))
    throw TypeError(complaint("dtype", name(values.dtype), "float8_e4m3fn or float8_e5m2"));
  if (values.rank == 2) return plan::kernel_of_quantize(values, granularity);
  ops::check_rank({"values", values}, 3, "[rows, K] or [G, rows, K]");
  return plan::kernel_of_quantize(ops::without_first(values), granularity);
}

KernelReport report_quantize(const jit::KernelSpec& spec, const ReportOptions& options, bool get) {
  KernelReport report;
  report.kernel = spec.name;
  report.config = plan::quantize_words(spec);
  report.identity = jit::identity(spec);
  report.threads = device::QuantizeConfig::threads;
  report.shared_bytes = spec.shared_bytes;
  if (get) get_kernel(spec, options, report);
  return report;
}

}  // namespace

KernelReport explain(const GemmArgs& args, const ReportOptions& options) {
  const GemmProblem problem = make_problem(args);
  KernelReport report = report_of(plan_of(problem, args, options));
  if (problem.batch != 1) report.fields.emplace_back("batch", to_text(problem.batch));
  if (options.candidates) report.candidates = candidates_of(args, options);
  return report;
}

KernelReport prepare(const GemmArgs& args, const ReportOptions& options) {
  const GemmProblem problem = make_problem(args);
  const plan::GemmPlan p = plan_of(problem, args, options);
  KernelReport report = report_of(p);
  get_kernel(p.spec, options, report);
  if (problem.batch == 1 || p.whole_batch) return report;
  // Launched alone, products of a batch may differ by how their matrices are aligned.
  const ops::FirstProduct first = ops::first_product(args, problem);
  plan::GemmBatch some = first.batch;
  some.count = std::min(some.count, plan::period_of_plans(*first.changed, some));
  plan::for_each_product(*first.changed, some, [&](const GemmArgs& product, std::int64_t) {
    get_kernel(plan::make_gemm_plan(problem, product, options.policy, budget_of(options)).spec,
               options, report);
  });
  return report;
}

KernelReport explain(const GroupedArgs& args, const ReportOptions& options) {
  return report_groups(args, options, false);
}
KernelReport explain(const MaskedArgs& args, const ReportOptions& options) {
  return report_groups(args, options, false);
}
KernelReport explain(const KGroupedArgs& args, const ReportOptions& options) {
  return report_groups(args, options, false);
}
KernelReport prepare(const GroupedArgs& args, const ReportOptions& options) {
  return report_groups(args, options, true);
}
KernelReport prepare(const MaskedArgs& args, const ReportOptions& options) {
  return report_groups(args, options, true);
}
KernelReport prepare(const KGroupedArgs& args, const ReportOptions& options) {
  return report_groups(args, options, true);
}

KernelReport explain_quantize(const TensorView& values, const Granularity& granularity,
                              const ReportOptions& options) {
  return report_quantize(quantize_kernel(values, granularity), options, false);
}
KernelReport prepare_quantize(const TensorView& values, const Granularity& granularity,
                              const ReportOptions& options) {
  return report_quantize(quantize_kernel(values, granularity), options, true);
}
KernelReport explain_dequantize(const ReportOptions& options) {
  return report_quantize(plan::dequantize_spec(), options, false);
}
KernelReport prepare_dequantize(const ReportOptions& options) {
  return report_quantize(plan::dequantize_spec(), options, true);
}
KernelReport explain_scale_layout(const ReportOptions& options) {
  return report_quantize(plan::scale_layout_spec(), options, false);
}
KernelReport prepare_scale_layout(const ReportOptions& options) {
  return report_quantize(plan::scale_layout_spec(), options, true);
}

}  // namespace deepgemm
