// deepgemm::grouped_gemm and masked_gemm: the checks, then the CPU backend or the GPU.
#include "deepgemm/grouped.hpp"

#include <optional>
#include <string>

#include "backend/cpu/cpu_backend.hpp"
#include "core/text.hpp"
#include "ops/checks.hpp"
#include "ops/granularity.hpp"
#include "ops/grouped_calls.hpp"
#include "ops/groups.hpp"
#include "ops/prepared.hpp"
#include "ops/product_checks.hpp"
#include "ops/stacks.hpp"

namespace deepgemm {
namespace {

using ops::Operand;

// Of rows that groups share among them: a block of rows would span groups.
constexpr Granularity readings_of_shared_rows[] = {
    {1, 128}, {1, 32}, {1, Granularity::whole}, per_tensor};

// "nn" for factors that lie as [K, N] values do; empty for rows first.
std::string_view b_turned_by(const RowGroupArgs& args) {
  return b_is_k_by_n(args.layout) ? ops::layout_name(args.layout) : std::string_view{};
}

void check_layout(Layout layout) {
  const std::string_view name = ops::layout_name(layout);  // throws if it is none of the four
  if (!a_is_k_by_m(layout)) return;
  throw ValueError(complaint("layout", join("\"", name, "\""), "\"nt\" or \"nn\"",
                             "the rows of a are given to groups"));
}

// Groups, M (rows of a, or of each of its matrices), N and K.
void read_extents(const RowGroupArgs& args, GroupedProblem& problem) {
  const TensorView& a = args.a.values;
  const TensorView& b = args.b.values;
  const bool masked = problem.kind == GroupKind::masked, b_t = b_is_k_by_n(args.layout);
  const char* a_shape = masked ? "[G, Mmax, K]" : "[M, K]";
  const char* b_shape = b_t ? "[G, K, N]" : "[G, N, K]";
  ops::check_multiplicand({"a", a}, masked ? 3 : 2, a_shape);
  ops::check_multiplicand({"b", b}, 3, b_shape);
  problem.groups = b.shape[0];
  problem.product.m = a.shape[masked ? 1 : 0];
  problem.product.k = a.shape[masked ? 2 : 1];
  problem.product.n = b.shape[b_t ? 2 : 1];
  if (masked && a.shape[0] != b.shape[0]) {
    throw ValueError(complaint("b", join("shape ", ops::shape_text(b), ", ", b.shape[0], " groups"),
                               join(a.shape[0], " groups"),
                               join("a has shape ", ops::shape_text(a), ", ", a_shape)));
  }
  const std::int64_t b_k = b.shape[b_t ? 1 : 2];
  if (b_k == problem.product.k) return;
  throw ValueError(complaint(
      "b", join("shape ", ops::shape_text(b), ", K = ", b_k), join("K = ", problem.product.k),
      join("a has shape ", ops::shape_text(a), "; layout \"", ops::layout_name(args.layout),
           "\" reads a as ", a_shape, " and b as ", b_shape)));
}

// Factors of a [M, K]: none may cover rows of two groups.
Granularity resolve_shared_rows(const RowGroupArgs& args, const GemmProblem& product) {
  const Granularity found =
      ops::resolve_granularity("a", "sfa", args.a, product.m, product.k, readings_of_shared_rows);
  if (found.rows == 1 || found.rows == Granularity::whole) return found;
  throw ValueError(complaint("a", join("granularity ", describe(found)), "(1, k), or one factor",
                             "a block of rows would span groups"));
}

void check_scaling(const RowGroupArgs& args, GroupedProblem& problem) {
  const Operand reference{"a", args.a.values};
  GemmProblem& product = problem.product;
  if (args.a.sf) ops::check_scale_factors({"sfa", *args.a.sf}, reference);
  if (args.b.sf) ops::check_scale_factors({"sfb", *args.b.sf}, reference);
  product.a_scaled = args.a.sf.has_value();
  product.b_scaled = args.b.sf.has_value();
  product.a_granularity = problem.kind == GroupKind::masked
                              ? ops::resolve_stack("a", "sfa", args.a, ops::readings_of_rows())
                              : resolve_shared_rows(args, product);
  product.b_granularity =
      ops::resolve_stack("b", "sfb", args.b, ops::readings_of_blocks(), b_turned_by(args));
}

// out, c and bias. `shape` of out and c: "[M, N]" or "[G, Mmax, N]".
void check_outer(const RowGroupArgs& args, const GroupedProblem& problem,
                 std::initializer_list<std::int64_t> shape, std::string_view what) {
  const Operand a{"a", args.a.values}, out{"out", args.out};
  ops::check_result(out, {DType::bfloat16, DType::float16, DType::float32}, shape, what, a);
  if (args.c) ops::check_addend({"c", *args.c}, out, shape, what, a);
  if (args.bias) {
    ops::check_bias({"bias", *args.bias}, {problem.groups, problem.product.n}, "[G, N]", a);
  }
  ops::for_each_input(args, [&](const Operand& input) { ops::check_no_overlap(out, input); });
}

// Everything but the group vector.
GroupedProblem make_rows_problem(const RowGroupArgs& args, GroupKind kind) {
  check_layout(args.layout);
  ops::check_activation(args.activation);
  GroupedProblem problem;
  problem.kind = kind;
  GemmProblem& product = problem.product;
  read_extents(args, problem);
  ops::check_device({"b", args.b.values}, {"a", args.a.values});
  ops::check_groups_outermost({"b", args.b.values});
  if (kind == GroupKind::masked) ops::check_groups_outermost({"a", args.a.values});
  check_scaling(args, problem);
  if (kind == GroupKind::masked) {
    check_outer(args, problem, {problem.groups, product.m, product.n}, "[G, Mmax, N]");
    ops::check_groups_outermost({"out", args.out});
    if (args.c) ops::check_groups_outermost({"c", *args.c});
  } else {
    check_outer(args, problem, {product.m, product.n}, "[M, N]");
  }
  product.a_dtype = args.a.values.dtype;
  product.b_dtype = args.b.values.dtype;
  product.out_dtype = args.out.dtype;
  product.layout = args.layout;
  product.activation = args.activation;
  product.has_c = args.c.has_value();
  product.has_bias = args.bias.has_value();
  product.has_alpha = args.alpha != 1.0F;
  return problem;
}

void check_call(const RowGroupArgs& args, const Operand& vector, const CallOptions& options) {
  ops::check_memory(args);
  ops::check_has_data(vector);
  ops::check_sms(options);
  ops::check_f64(options, args.a.values.device);
}

// Factors of stacks as [G, rows, k], which is how plan and cpu take them.
template <class Args>
Args with_stacked_scales(const Args& args, const GroupedProblem& problem) {
  Args result = args;
  const bool masked = problem.kind == GroupKind::masked;
  if (masked && args.a.sf) result.a.sf = ops::stacked_scales(*args.a.sf, problem.groups);
  if (args.b.sf) {
    result.b.sf = ops::stacked_scales(*args.b.sf, problem.groups, b_is_k_by_n(args.layout));
  }
  return result;
}

bool is_cpu(const RowGroupArgs& args) { return args.a.values.device.kind == DeviceKind::cpu; }

Operand vector_of(const GroupedArgs& args) { return {ops::name_of(args.form), args.groups}; }
Operand vector_of(const MaskedArgs& args) { return {"rows", args.rows}; }

// What the group vector says; for arguments that are checked.
cpu::GroupRows values_of(const GroupedArgs& args, Stream stream) {
  return ops::rows_of_groups(args, args.b.values.shape[0], args.a.values.shape[0], stream);
}
std::vector<std::int64_t> values_of(const MaskedArgs& args, Stream stream) {
  return ops::rows_of_masks(args.rows, args.a.values.shape[1], stream);
}

bool is_empty(const GroupedProblem& problem) {
  return problem.groups == 0 || problem.product.m == 0 || problem.product.n == 0;
}

}  // namespace

GroupedProblem make_problem(const GroupedArgs& args) {
  const Operand vector{ops::name_of(args.form), args.groups};
  if (args.alignment < 1 || (args.alignment != 1 && args.form != GroupForm::ends)) {
    throw ValueError(complaint("alignment", to_text(args.alignment),
                               args.alignment < 1 ? "1 or more" : "1",
                               "only the groups of group_ends start at its multiples"));
  }
  GroupedProblem problem = make_rows_problem(args, GroupKind::rows);
  problem.form = args.form;
  const bool labels = args.form == GroupForm::labels, offsets = args.form == GroupForm::offsets;
  ops::check_group_vector(vector, labels ? problem.product.m : problem.groups + (offsets ? 1 : 0),
                          labels    ? "[M], one for each row of a"
                          : offsets ? "[G + 1], b has G matrices"
                                    : "[G], one for each matrix of b",
                          {"a", args.a.values}, {"out", args.out});
  return problem;
}

GroupedProblem make_problem(const MaskedArgs& args) {
  if (args.expected_rows && *args.expected_rows < 0) {
    throw ValueError(complaint("expected_rows", to_text(*args.expected_rows), "0 or more"));
  }
  GroupedProblem problem = make_rows_problem(args, GroupKind::masked);
  ops::check_group_vector({"rows", args.rows}, problem.groups, "[G], one for each matrix of b",
                          {"a", args.a.values}, {"out", args.out});
  return problem;
}

namespace {

template <class Args>
std::optional<plan::Prepared> prepare_groups(const Args& args, const CallOptions& options,
                                             ops::GroupValues values) {
  const GroupedProblem problem = make_problem(args);
  check_call(args, vector_of(args), options);
  if (values == ops::GroupValues::checked) ops::check_group_values(args, options.stream);
  if (is_empty(problem)) return std::nullopt;
  plan::Prepared made = plan::prepare(problem, with_stacked_scales(args, problem), options);
  made.call.set_spans(args);
  return made;
}

template <class Args>
std::optional<plan::GroupedCall> call_of_groups(const Args& args) {
  const GroupedProblem problem = make_problem(args);
  if (is_empty(problem)) return std::nullopt;
  return plan::grouped_call(problem, with_stacked_scales(args, problem));
}

template <class Args, class Operation>
void run(const Args& args, const CallOptions& options, Operation&& on_the_cpu) {
  if (!is_cpu(args)) return ops::run_on_gpu(args, options);
  const GroupedProblem problem = make_problem(args);
  check_call(args, vector_of(args), options);
  const auto values = values_of(args, options.stream);
  if (is_empty(problem)) return;
  on_the_cpu(problem, with_stacked_scales(args, problem), values, options.accumulate_in_f64);
}

}  // namespace

std::optional<plan::Prepared> ops::prepare(const GroupedArgs& args, const CallOptions& options,
                                           GroupValues values) {
  return prepare_groups(args, options, values);
}
std::optional<plan::Prepared> ops::prepare(const MaskedArgs& args, const CallOptions& options,
                                           GroupValues values) {
  return prepare_groups(args, options, values);
}

void ops::check_group_values(const GroupedArgs& args, Stream stream) {
  if (are_values_checked(args.groups)) values_of(args, stream);
}
void ops::check_group_values(const MaskedArgs& args, Stream stream) {
  if (are_values_checked(args.rows)) values_of(args, stream);
}

void grouped_gemm(const GroupedArgs& args, const CallOptions& options) {
  run(args, options, cpu::grouped_gemm);
}

void masked_gemm(const MaskedArgs& args, const CallOptions& options) {
  run(args, options, cpu::masked_gemm);
}

std::optional<plan::GroupedCall> ops::grouped_call_of(const GroupedArgs& args) {
  return call_of_groups(args);
}
std::optional<plan::GroupedCall> ops::grouped_call_of(const MaskedArgs& args) {
  return call_of_groups(args);
}

}  // namespace deepgemm
