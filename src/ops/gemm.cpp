// deepgemm::gemm: the checks, then the CPU backend or a plan.
#include "deepgemm/gemm.hpp"

#include <cmath>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "backend/cpu/cpu_backend.hpp"
#include "core/text.hpp"
#include "ops/batches.hpp"
#include "ops/checks.hpp"
#include "ops/granularity.hpp"
#include "ops/prepared.hpp"
#include "ops/product_checks.hpp"
#include "ops/stacks.hpp"

namespace deepgemm {
namespace {

using ops::Operand;

constexpr const char* shape_of_a(Layout layout, bool batched) {
  return a_is_k_by_m(layout) ? (batched ? "[B, K, M]" : "[K, M]")
                             : (batched ? "[B, M, K]" : "[M, K]");
}
constexpr const char* shape_of_b(Layout layout, bool batched) {
  return b_is_k_by_n(layout) ? (batched ? "[B, K, N]" : "[K, N]")
                             : (batched ? "[B, N, K]" : "[N, K]");
}

void check_values(const Operand& operand, const char* matrix, const char* batch) {
  if (operand.view.rank == 3) {
    ops::check_multiplicand(operand, 3, batch);
  } else {
    const bool fits = operand.view.rank == 2;
    ops::check_multiplicand(operand, 2,
                            fits ? std::string() : join(matrix, ", or rank 3, ", batch));
  }
}

// M, N and K of a and b, which must agree on K, and on how many products there are.
void read_extents(const GemmArgs& args, GemmProblem& problem) {
  const TensorView& a = args.a.values;
  const TensorView& b = args.b.values;
  const Layout layout = args.layout;
  check_values({"a", a}, shape_of_a(layout, false), shape_of_a(layout, true));
  check_values({"b", b}, shape_of_b(layout, false), shape_of_b(layout, true));
  const int a_rows = a.rank - (a_is_k_by_m(layout) ? 1 : 2), a_depth = 2 * a.rank - 3 - a_rows;
  const int b_rows = b.rank - (b_is_k_by_n(layout) ? 1 : 2), b_depth = 2 * b.rank - 3 - b_rows;
  problem.m = a.shape[a_rows];
  problem.k = a.shape[a_depth];
  problem.n = b.shape[b_rows];
  if (b.shape[b_depth] == problem.k) {
    problem.batch = ops::batch_of(args);
    return;
  }
  throw ValueError(complaint(
      "b", join("shape ", ops::shape_text(b), ", K = ", b.shape[b_depth]), join("K = ", problem.k),
      join("a has shape ", ops::shape_text(a), "; layout \"", ops::layout_name(layout),
           "\" reads a as ", shape_of_a(layout, a.rank == 3), " and b as ",
           shape_of_b(layout, b.rank == 3))));
}

// Of one matrix of rows x k; a batch of them may have its own factors or share one's.
Granularity check_factors(const Operand& values, std::string_view sf_name, const ScaledView& x,
                          std::int64_t rows, std::int64_t k, std::span<const Granularity> readings,
                          std::string_view turned_by) {
  if (values.view.rank == 3) {
    return ops::resolve_stack(values.name, sf_name, x, readings, turned_by, ops::of_batch);
  }
  return ops::resolve_granularity(values.name, sf_name, x, rows, k, readings, turned_by);
}

void check_scaling(const GemmArgs& args, GemmProblem& problem) {
  const Operand reference{"a", args.a.values};
  if (args.a.sf) ops::check_scale_factors({"sfa", *args.a.sf}, reference);
  if (args.b.sf) ops::check_scale_factors({"sfb", *args.b.sf}, reference);
  problem.a_scaled = args.a.sf.has_value();
  problem.b_scaled = args.b.sf.has_value();
  const std::string_view layout = ops::layout_name(args.layout), rows_first;
  problem.a_granularity =
      check_factors(reference, "sfa", args.a, problem.m, problem.k, ops::readings_of_rows(),
                    a_is_k_by_m(args.layout) ? layout : rows_first);
  problem.b_granularity =
      check_factors({"b", args.b.values}, "sfb", args.b, problem.n, problem.k,
                    ops::readings_of_blocks(), b_is_k_by_n(args.layout) ? layout : rows_first);
}

void check_out(const GemmArgs& args, const GemmProblem& problem) {
  const Operand out{"out", args.out}, reference{"a", args.a.values};
  const auto check = [&](std::initializer_list<std::int64_t> shape, std::string_view what) {
    ops::check_result(
        out,
        {DType::bfloat16, DType::float16, DType::float32, DType::float8_e4m3fn, DType::float8_e5m2},
        shape, what, reference);
  };
  if (ops::is_batched(args)) {
    check({problem.batch, problem.m, problem.n}, "[B, M, N]");
    ops::check_groups_outermost(out, ops::of_batch);
  } else {
    check({problem.m, problem.n}, "[M, N]");
  }
  if (!(std::isfinite(args.out_scale) && args.out_scale > 0)) {
    throw ValueError(complaint("out_scale", to_text(args.out_scale), "a finite number above 0"));
  }
  if (args.out_scale != 1.0F && !is_float8(args.out.dtype)) {
    throw ValueError(complaint("out_scale", to_text(args.out_scale), "1",
                               join("only a float8 out is scaled, out is ", name(args.out.dtype))));
  }
}

void check_c(const TensorView& c, const GemmArgs& args, const GemmProblem& problem) {
  const Operand out{"out", args.out}, reference{"a", args.a.values};
  if (ops::is_batched(args)) {
    ops::check_addend({"c", ops::batched_addend(c, problem)}, out,
                      {problem.batch, problem.m, problem.n}, "[B, M, N], or [M, N] for all",
                      reference);
  } else {
    ops::check_addend({"c", c}, out, {problem.m, problem.n}, "[M, N]", reference);
  }
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
  const Operand reference{"a", args.a.values};
  if (args.c) check_c(*args.c, args, problem);
  if (args.bias) ops::check_bias({"bias", *args.bias}, {problem.n}, "[N]", reference);
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

namespace {

GemmProblem checked(const GemmArgs& args, const CallOptions& options) {
  const GemmProblem problem = make_problem(args);
  ops::check_memory(args);
  ops::check_sms(options);
  return problem;
}

bool is_empty(const GemmProblem& problem) {
  return problem.batch == 0 || problem.m == 0 || problem.n == 0;
}

}  // namespace

std::optional<plan::Prepared> ops::prepare(const GemmArgs& given, const CallOptions& options,
                                           GroupValues) {
  const GemmProblem problem = checked(given, options);
  if (is_empty(problem)) return std::nullopt;
  check_f64(options, given.a.values.device);
  const FirstProduct first = first_product(given, problem);
  const GemmArgs& args = first.changed ? *first.changed : given;
  plan::Prepared made = plan::prepare(problem, args, first.batch, options);
  made.call.set_spans(given);
  return made;
}

void gemm(const GemmArgs& given, const CallOptions& options) {
  if (given.a.values.device.kind != DeviceKind::cpu) return ops::run_on_gpu(given, options);
  const GemmProblem problem = checked(given, options);
  if (is_empty(problem)) return;
  const ops::FirstProduct first = ops::first_product(given, problem);
  plan::for_each_product(first.changed ? *first.changed : given, first.batch,
                         [&](const GemmArgs& product, std::int64_t) {
                           cpu::gemm(problem, product, options.accumulate_in_f64);
                         });
}

}  // namespace deepgemm
