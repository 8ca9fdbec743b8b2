// deepgemm::gemm: the checks, then the CPU backend or a plan.
#include "deepgemm/gemm.hpp"

#include <cmath>
#include <optional>
#include <string>

#include "backend/cpu/cpu_backend.hpp"
#include "core/text.hpp"
#include "ops/checks.hpp"
#include "ops/granularity.hpp"
#include "ops/product_checks.hpp"
#include "plan/cuda_backend.hpp"

namespace deepgemm {
namespace {

using ops::Operand;

// M, N and K of a and b, which must agree on K.
void read_extents(const GemmArgs& args, GemmProblem& problem) {
  const TensorView& a = args.a.values;
  const TensorView& b = args.b.values;
  bool a_t = a_is_k_by_m(args.layout), b_t = b_is_k_by_n(args.layout);
  ops::check_multiplicand({"a", a}, 2, a_t ? "[K, M]" : "[M, K]");
  ops::check_multiplicand({"b", b}, 2, b_t ? "[K, N]" : "[N, K]");
  problem.m = a.shape[a_t ? 1 : 0];
  problem.k = a.shape[a_t ? 0 : 1];
  problem.n = b.shape[b_t ? 1 : 0];
  std::int64_t b_k = b.shape[b_t ? 0 : 1];
  if (b_k == problem.k) return;
  throw ValueError(complaint(
      "b", join("shape ", ops::shape_text(b), ", K = ", b_k), join("K = ", problem.k),
      join("a has shape ", ops::shape_text(a), "; layout \"", ops::layout_name(args.layout),
           "\" reads a as ", a_t ? "[K, M]" : "[M, K]", " and b as ", b_t ? "[K, N]" : "[N, K]")));
}

void check_scaling(const GemmArgs& args, GemmProblem& problem) {
  const Operand reference{"a", args.a.values};
  if (args.a.sf) ops::check_scale_factors({"sfa", *args.a.sf}, reference);
  if (args.b.sf) ops::check_scale_factors({"sfb", *args.b.sf}, reference);
  problem.a_scaled = args.a.sf.has_value();
  problem.b_scaled = args.b.sf.has_value();
  const std::string_view layout = ops::layout_name(args.layout), rows_first;
  problem.a_granularity =
      ops::resolve_granularity("a", "sfa", args.a, problem.m, problem.k, ops::readings_of_rows(),
                               a_is_k_by_m(args.layout) ? layout : rows_first);
  problem.b_granularity =
      ops::resolve_granularity("b", "sfb", args.b, problem.n, problem.k, ops::readings_of_blocks(),
                               b_is_k_by_n(args.layout) ? layout : rows_first);
}

void check_out(const GemmArgs& args, const GemmProblem& problem) {
  ops::check_result(
      {"out", args.out},
      {DType::bfloat16, DType::float16, DType::float32, DType::float8_e4m3fn, DType::float8_e5m2},
      {problem.m, problem.n}, "[M, N]", {"a", args.a.values});
  if (!(std::isfinite(args.out_scale) && args.out_scale > 0)) {
    throw ValueError(complaint("out_scale", to_text(args.out_scale), "a finite number above 0"));
  }
  if (args.out_scale != 1.0F && !is_float8(args.out.dtype)) {
    throw ValueError(complaint("out_scale", to_text(args.out_scale), "1",
                               join("only a float8 out is scaled, out is ", name(args.out.dtype))));
  }
}

void check_c_and_bias(const GemmArgs& args, const GemmProblem& problem) {
  const Operand reference{"a", args.a.values};
  if (args.c) {
    ops::check_addend({"c", *args.c}, {"out", args.out}, {problem.m, problem.n}, "[M, N]",
                      reference);
  }
  if (args.bias) ops::check_bias({"bias", *args.bias}, {problem.n}, "[N]", reference);
}

}  // namespace

GemmProblem make_problem(const GemmArgs& args) {
  ops::layout_name(args.layout);  // throws if it is none of the four
  ops::check_activation(args.activation);
  GemmProblem problem;
  read_extents(args, problem);
  ops::check_device({"b", args.b.values}, {"a", args.a.values});
  check_scaling(args, problem);
  check_out(args, problem);
  check_c_and_bias(args, problem);
  ops::for_each_input(
      args, [&](const Operand& input) { ops::check_no_overlap({"out", args.out}, input); });
  problem.a_dtype = args.a.values.dtype;
  problem.b_dtype = args.b.values.dtype;
  problem.out_dtype = args.out.dtype;
  problem.layout = args.layout;
  problem.activation = args.activation;
  problem.has_c = args.c.has_value();
  problem.has_bias = args.bias.has_value();
  problem.has_alpha = args.alpha != 1.0F;
  return problem;
}

void gemm(const GemmArgs& given, const CallOptions& options) {
  GemmProblem problem = make_problem(given);
  ops::check_memory(given);
  ops::check_sms(options);
  if (problem.m == 0 || problem.n == 0) return;
  const std::optional<GemmArgs> turned = ops::with_scales_by_rows(given);
  const GemmArgs& args = turned ? *turned : given;
  if (args.a.values.device.kind == DeviceKind::cpu) {
    cpu::gemm(problem, args, options.accumulate_in_f64);
    return;
  }
  ops::check_f64(options, args.a.values.device);
  plan::gemm(problem, args, options);
}

}  // namespace deepgemm
