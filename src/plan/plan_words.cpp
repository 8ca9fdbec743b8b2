#include "plan/plan_words.hpp"

#include <cstring>

#include "core/text.hpp"
#include "plan/grouped_plan.hpp"
#include "plan/kernel_specs.hpp"

namespace deepgemm::plan {

std::string config_words(const GemmPlan& plan) {
  switch (plan.kernel) {
    case GemmKernel::persistent:
      return heuristics::describe(plan.choice.config);
    case GemmKernel::decode:
      return heuristics::describe(plan.decode.config);
    case GemmKernel::general:
      break;
  }
  return "64x64 tile, FP32 FMA";
}

std::string quantize_words(const jit::KernelSpec& spec) {
  if (spec.config.empty()) return "any";
  device::QuantizeConfig config;
  std::memcpy(&config, spec.config.data(), sizeof(config));
  const int k = config.k_per_scale;
  return join(k != 0 ? to_text(k) : std::string("any"), " of K per scale, ",
              config.whole_cta ? "CTA" : "warp", " per block, ",
              config.values_e5m2 ? "e5m2" : "e4m3");
}

std::vector<TmaMatrix> descriptors_of(const GemmPlan& plan, const GemmProblem& problem,
                                      const GemmArgs& first, const GroupLayout& stack) {
  std::vector<TmaMatrix> all;
  if (plan.kernel == GemmKernel::general) return all;
  const RowsByK a = operand_a(first, problem), b = operand_b(first, problem);
  if (plan.kernel == GemmKernel::decode) {
    const device::DecodeConfig& c = plan.decode.config;
    all.push_back(decode_matrix(b, c.rows(), c.stage_blocks, "b"));
    all.push_back(decode_matrix(a, c.tokens, c.stage_blocks, "a"));
    return all;
  }
  const device::GemmConfig& c = plan.choice.config;
  const auto add = [&](const TmaMatrix& matrix, std::int64_t count, std::int64_t apart) {
    all.push_back(c.stacked() ? stacked(matrix, count, apart) : matrix);
  };
  add(a_matrix(a, c), stack.a_matrices(), stack.a);
  add(b_matrix(b, c), stack.b_matrices(), stack.b);
  if (const auto edge = a_edge_matrix(a, c)) add(*edge, stack.a_matrices(), stack.a);
  if (const auto edge = b_edge_matrix(b, c)) add(*edge, stack.b_matrices(), stack.b);
  if (c.scaled() && c.scales_by_tma) {
    add(factor_matrix(a, c.tile_m, "sfa", stack), stack.a_matrices(), stack.sfa);
    if (c.column_scales)
      add(factor_matrix(b, c.tile_n, "sfb", stack), stack.b_matrices(), stack.sfb);
  }
  if (c.epilogue != device::Epilogue::general)
    add(out_matrix(first.out, c, "out"), stack.out_matrices(), stack.out);
  if (c.epilogue == device::Epilogue::accumulate)
    add(out_matrix(*first.c, c, "c"), stack.out_matrices(), stack.c);
  return all;
}

std::string descriptor_words(const GemmPlan& plan, const GemmProblem& problem,
                             const GemmArgs& first, const GroupLayout& stack) {
  std::string text;
  for (const TmaMatrix& m : descriptors_of(plan, problem, first, stack)) {
    text +=
        join(m.name, ": ", tma::describe(m.view, m.tile, m.swizzle, descriptor_promotion), "\n");
  }
  return text.empty() ? "none: this kernel does not use TMA\n" : text;
}

}  // namespace deepgemm::plan
