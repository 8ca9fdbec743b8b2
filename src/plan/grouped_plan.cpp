#include "plan/grouped_plan.hpp"

#include <algorithm>

#include "core/math.hpp"
#include "core/text.hpp"
#include "device/common/group_vector.cuh"
#include "plan/gemm_policy.hpp"
#include "plan/tma_matrices.hpp"

namespace deepgemm::plan {
namespace {

using device::GroupVectorForm;

std::int64_t distance(const TensorView& stack) {
  return stack.shape[0] == 1 ? 0 : stack.strides[0];
}
std::int64_t distance(const std::optional<TensorView>& stack) {
  return stack ? distance(*stack) : 0;
}

std::optional<TensorView> first_of(const std::optional<TensorView>& stack) {
  if (!stack) return std::nullopt;
  return selected(*stack, 0);
}
ScaledView first_of(const ScaledView& stack) {
  return {selected(stack.values, 0), first_of(stack.sf), stack.granularity};
}

device::GroupVector vector_of(const TensorView& view, GroupVectorForm form, std::int64_t groups,
                              std::int64_t rows, std::int64_t alignment) {
  device::GroupVector vector{};
  vector.data = view.data;
  vector.step = view.shape[0] == 1 ? 0 : view.strides[0];
  vector.is_64_bit = view.dtype == DType::int64;
  vector.form = form;
  vector.groups = static_cast<int>(groups);
  vector.rows = static_cast<int>(rows);
  vector.alignment = static_cast<int>(std::min(alignment, rows));  // more means the same
  return vector;
}

GroupVectorForm form_of(GroupForm form) {
  switch (form) {
    case GroupForm::sizes:
      return GroupVectorForm::sizes;
    case GroupForm::offsets:
      return GroupVectorForm::offsets;
    case GroupForm::ends:
      return GroupVectorForm::ends;
    default:
      return GroupVectorForm::labels;
  }
}

// b and the epilogue, which masks and other forms have in common.
GroupedCall common_call(const GroupedProblem& problem, const RowGroupArgs& args) {
  GroupedCall call;
  call.product = problem.product;
  call.first.b = first_of(args.b);
  call.first.bias = first_of(args.bias);
  call.first.activation = args.activation;
  call.first.alpha = args.alpha;
  call.first.layout = args.layout;
  call.layout.groups = problem.groups;
  call.layout.b = distance(args.b.values);
  call.layout.sfb = distance(args.b.sf);
  call.layout.bias = distance(args.bias);
  return call;
}

// A matrix of the call as the stack it is part of.
TmaMatrix stack_of(const TmaMatrix& matrix, const GroupLayout& layout, std::int64_t apart) {
  return stacked(matrix, layout.stacked ? layout.groups : 1, apart);
}

bool takes_factors_by_tma(const GroupedCall& call, const RowsByK& a, const RowsByK& b,
                          bool column_scales) {
  const auto a_stack =
      stack_of(factor_matrix(a, device::block_k, "sfa"), call.layout, call.layout.sfa);
  if (!broken_rule(a_stack).empty()) return false;
  if (!column_scales) return true;
  return broken_rule(
             stacked(factor_matrix(b, device::block_k, "sfb"), call.layout.groups, call.layout.sfb))
      .empty();
}

heuristics::GemmRequest request_of(const GroupedCall& call, const SmBudget& sms) {
  const RowsByK a = operand_a(call.first, call.product), b = operand_b(call.first, call.product);
  heuristics::GemmRequest request = fp8_request(call.product, call.first, a, b, sms.count);
  const device::GemmConfig some;
  const bool out_by_tma =
      request.epilogue == device::Epilogue::store &&
      broken_rule(stack_of(out_matrix(call.first.out, some, "out"), call.layout, call.layout.out))
          .empty();
  if (!out_by_tma) request.epilogue = device::Epilogue::general;
  request.scales_by_tma =
      request.scales_by_tma && takes_factors_by_tma(call, a, b, request.column_scales);
  request.schedule = call.layout.vector.form == GroupVectorForm::labels ? device::Schedule::labels
                                                                        : device::Schedule::groups;
  request.m = std::max<std::int64_t>(1, call.expected_rows);
  request.groups = call.layout.groups;
  return request;
}

// What a vector can ask for at most, in tiles.
std::int64_t most_tiles(const GroupedCall& call, const device::GemmConfig& config) {
  const std::int64_t rows = ceil_div(call.product.m, std::int64_t{config.tile_m});
  const std::int64_t columns = ceil_div(call.product.n, std::int64_t{config.tile_n});
  return (call.layout.stacked ? rows * call.layout.groups : rows + call.layout.groups) * columns;
}

}  // namespace

GroupedCall grouped_call(const GroupedProblem& problem, const GroupedArgs& args) {
  GroupedCall call = common_call(problem, args);
  call.first.a = args.a;
  call.first.out = args.out;
  call.first.c = args.c;
  call.layout.vector =
      vector_of(args.groups, form_of(args.form), problem.groups, problem.product.m, args.alignment);
  call.expected_rows = ceil_div(problem.product.m, problem.groups);
  return call;
}

GroupedCall grouped_call(const GroupedProblem& problem, const MaskedArgs& args) {
  GroupedCall call = common_call(problem, args);
  call.first.a = first_of(args.a);
  call.first.out = selected(args.out, 0);
  call.first.c = first_of(args.c);
  call.layout.stacked = true;
  call.layout.a = distance(args.a.values);
  call.layout.sfa = distance(args.a.sf);
  call.layout.out = distance(args.out);
  call.layout.c = distance(args.c);
  call.layout.vector =
      vector_of(args.rows, GroupVectorForm::masks, problem.groups, problem.product.m, 1);
  call.expected_rows = args.expected_rows.value_or(problem.product.m);
  return call;
}

std::string why_not_fp8(const GroupedCall& call) {
  const RowsByK a = operand_a(call.first, call.product), b = operand_b(call.first, call.product);
  if (call.product.a_dtype != DType::float8_e4m3fn || call.product.b_dtype != DType::float8_e4m3fn)
    return "a and b are not both float8_e4m3fn";
  if (std::string why = why_not_fp8(call.product, a, b); !why.empty()) return why;
  const device::GemmConfig some;
  if (auto rule = broken_rule(stack_of(a_matrix(a, some), call.layout, call.layout.a));
      !rule.empty())
    return join("a: ", rule);
  if (auto rule = broken_rule(stacked(b_matrix(b, some), call.layout.groups, call.layout.b));
      !rule.empty())
    return join("b: ", rule);
  constexpr std::int64_t smallest_tile = 32;
  const std::int64_t columns = ceil_div(call.product.n, smallest_tile);
  const std::int64_t rows = ceil_div(call.product.m, std::int64_t{device::unit_rows});
  const std::int64_t most =
      call.layout.stacked ? rows * call.layout.groups : rows + call.layout.groups;
  return most > device::max_group_tiles / columns ? "there may be 2^30 tiles or more" : "";
}

GemmPlan make_grouped_plan(const GroupedCall& call, const Policy* policy, const SmBudget& sms) {
  GemmPlan plan = fp8_plan(request_of(call, sms), policy);
  plan.reason = "groups of float8 with (1, 128) and (128, 128) or (1, 128) factors";
  // How many tiles there are is known on the device only.
  plan.grid = std::min<std::int64_t>(sms.count, most_tiles(call, plan.choice.config));
  plan.choice.grid = static_cast<int>(plan.grid);
  plan.choice.raster_group = 8;  // row tiles of a group side by side
  return plan;
}

}  // namespace deepgemm::plan
