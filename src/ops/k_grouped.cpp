// deepgemm::k_grouped_gemm: the checks, then the CPU backend or the GPU.
#include <optional>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "core/math.hpp"
#include "core/text.hpp"
#include "deepgemm/grouped.hpp"
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

constexpr Granularity the_granularity{1, 128};
constexpr std::int64_t float8_multiple = 16;

// One of a and b: its values and factors, and how its layout has them.
struct Side {
  const char* name;
  const char* sf_name;
  const ScaledView& view;
  bool turned;  // [K, rows]
  std::int64_t rows() const { return view.values.shape[turned ? 1 : 0]; }
  std::int64_t k() const { return view.values.shape[turned ? 0 : 1]; }
  std::int64_t blocks() const { return view.sf->shape[turned ? 0 : 1]; }
};
Side a_of(const KGroupedArgs& args) { return {"a", "sfa", args.a, a_is_k_by_m(args.layout)}; }
Side b_of(const KGroupedArgs& args) { return {"b", "sfb", args.b, b_is_k_by_n(args.layout)}; }

void check_extents(const KGroupedArgs& args, GroupedProblem& problem) {
  const Side a = a_of(args), b = b_of(args);
  ops::check_multiplicand({"a", a.view.values}, 2, a.turned ? "[K, M]" : "[M, K]");
  ops::check_multiplicand({"b", b.view.values}, 2, b.turned ? "[K, N]" : "[N, K]");
  problem.product.m = a.rows();
  problem.product.n = b.rows();
  problem.product.k = a.k();
  if (b.k() == a.k()) return;
  throw ValueError(complaint(
      "b", join("shape ", ops::shape_text(b.view.values), ", K = ", b.k()), join("K = ", a.k()),
      join("a has shape ", ops::shape_text(a.view.values), "; layout \"",
           ops::layout_name(args.layout), "\" reads a as ", a.turned ? "[K, M]" : "[M, K]",
           " and b as ", b.turned ? "[K, N]" : "[N, K]")));
}

// How many blocks there must be depends on the sizes; see check_blocks().
void check_scales(const Side& side, const Operand& reference) {
  if (!side.view.sf) return;
  const Operand sf{side.sf_name, *side.view.sf};
  ops::check_scale_factors(sf, reference);
  if (side.view.granularity && *side.view.granularity != the_granularity) {
    throw ValueError(complaint(side.name, join("granularity ", describe(*side.view.granularity)),
                               describe(the_granularity), "of a product grouped along K"));
  }
  ops::check_rank(sf, 2, side.turned ? "[K blocks, rows]" : "[rows, K blocks]");
  const std::int64_t rows = sf.view.shape[side.turned ? 1 : 0];
  if (rows == side.rows()) return;
  throw ValueError(complaint(
      side.sf_name, join("shape ", ops::shape_text(sf.view), ", ", rows, " rows"),
      join(side.rows(), " rows"), join("one factor for each row of ", side.name, " and 128 of K")));
}

// Blocks of 128 are counted per group.
void check_blocks(const Side& side, const std::vector<std::int64_t>& sizes) {
  if (!side.view.sf) return;
  std::int64_t need = 0;
  for (std::int64_t size : sizes) need += ceil_div(size, the_granularity.k);
  if (side.blocks() >= need) return;
  throw ValueError(complaint(
      side.sf_name, join("shape ", ops::shape_text(*side.view.sf), ", ", side.blocks(), " blocks"),
      join(need, " or more"), "each group starts a block: ceil(size / 128) for each, summed"));
}

void check_outer(const KGroupedArgs& args, const GroupedProblem& problem) {
  const Operand a{"a", args.a.values}, out{"out", args.out};
  const std::int64_t m = problem.product.m, n = problem.product.n;
  ops::check_result(out, {DType::float32, DType::bfloat16}, {problem.groups, m, n}, "[G, M, N]", a);
  ops::check_groups_outermost(out);
  if (args.c) {
    ops::check_addend({"c", *args.c}, out, {problem.groups, m, n}, "[G, M, N]", a);
    ops::check_groups_outermost({"c", *args.c});
  }
  ops::for_each_input(args, [&](const Operand& input) { ops::check_no_overlap(out, input); });
}

// Factors as [rows, blocks].
KGroupedArgs with_factors_by_rows(const KGroupedArgs& args) {
  KGroupedArgs result = args;
  if (args.a.sf && a_of(args).turned) result.a.sf = transposed(*args.a.sf);
  if (args.b.sf && b_of(args).turned) result.b.sf = transposed(*args.b.sf);
  return result;
}

}  // namespace

GroupedProblem make_problem(const KGroupedArgs& args) {
  ops::layout_name(args.layout);  // throws if it is none of the four
  GroupedProblem problem;
  problem.kind = GroupKind::k;
  check_extents(args, problem);
  const Operand a{"a", args.a.values}, k_sizes{"k_sizes", args.k_sizes};
  ops::check_device({"b", args.b.values}, a);
  check_scales(a_of(args), a);
  check_scales(b_of(args), a);
  ops::check_rank(k_sizes, 1, "[G]");
  problem.groups = args.k_sizes.shape[0];
  ops::check_group_vector(k_sizes, problem.groups, "[G]", a, {"out", args.out});
  check_outer(args, problem);
  GemmProblem& product = problem.product;
  product.a_dtype = args.a.values.dtype;
  product.b_dtype = args.b.values.dtype;
  product.out_dtype = args.out.dtype;
  product.layout = args.layout;
  product.a_scaled = args.a.sf.has_value();
  product.b_scaled = args.b.sf.has_value();
  product.a_granularity = product.a_scaled ? the_granularity : per_tensor;
  product.b_granularity = product.b_scaled ? the_granularity : per_tensor;
  product.has_c = args.c.has_value();
  product.has_alpha = args.alpha != 1.0F;
  return problem;
}

namespace {

GroupedProblem checked(const KGroupedArgs& args, const CallOptions& options) {
  const GroupedProblem problem = make_problem(args);
  ops::check_memory(args);
  ops::check_has_data({"k_sizes", args.k_sizes});
  ops::check_sms(options);
  ops::check_f64(options, args.a.values.device);
  return problem;
}

bool is_empty(const GroupedProblem& problem) {
  return problem.groups == 0 || problem.product.m == 0 || problem.product.n == 0;
}

// What k_sizes says; for arguments that are checked.
std::vector<std::int64_t> values_of(const KGroupedArgs& args, Stream stream) {
  const bool float8 = is_float8(args.a.values.dtype) || is_float8(args.b.values.dtype);
  const Side a = a_of(args), b = b_of(args);
  std::vector<std::int64_t> sizes =
      ops::sizes_of_k(args.k_sizes, a.k(), float8 ? float8_multiple : 1, stream);
  check_blocks(a, sizes);
  check_blocks(b, sizes);
  return sizes;
}

}  // namespace

std::optional<plan::Prepared> ops::prepare(const KGroupedArgs& args, const CallOptions& options,
                                           GroupValues values) {
  const GroupedProblem problem = checked(args, options);
  if (values == GroupValues::checked) check_group_values(args, options.stream);
  if (is_empty(problem)) return std::nullopt;
  plan::Prepared made = plan::prepare(problem, with_factors_by_rows(args), options);
  made.call.set_spans(args);
  return made;
}

void ops::check_group_values(const KGroupedArgs& args, Stream stream) {
  if (are_values_checked(args.k_sizes)) values_of(args, stream);
}

void k_grouped_gemm(const KGroupedArgs& args, const CallOptions& options) {
  if (args.a.values.device.kind != DeviceKind::cpu) return ops::run_on_gpu(args, options);
  const GroupedProblem problem = checked(args, options);
  const std::vector<std::int64_t> sizes = values_of(args, options.stream);
  if (is_empty(problem)) return;
  cpu::k_grouped_gemm(problem, with_factors_by_rows(args), sizes, options.accumulate_in_f64);
}

std::optional<plan::GroupedCall> ops::grouped_call_of(const KGroupedArgs& args) {
  const GroupedProblem problem = make_problem(args);
  if (is_empty(problem)) return std::nullopt;
  return plan::grouped_call(problem, with_factors_by_rows(args));
}

}  // namespace deepgemm
