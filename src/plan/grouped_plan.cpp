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
  call.layout.kind = problem.kind;
  call.layout.groups = problem.groups;
  call.layout.b = distance(args.b.values);
  call.layout.sfb = distance(args.b.sf);
  call.layout.bias = distance(args.bias);
  return call;
}

bool takes_factors_by_tma(const RowsByK& operand, const GroupLayout& layout, std::int64_t matrices,
                          std::int64_t apart) {
  const TmaMatrix one = factor_matrix(operand, device::block_k, "sf", layout);
  return broken_rule(stacked(one, matrices, apart)).empty();
}

// TMA adds to D only where all of a tile is the group's.
device::Epilogue epilogue_of(device::Epilogue dense, const GroupedCall& call) {
  const GroupLayout& layout = call.layout;
  if (dense == device::Epilogue::general) return dense;
  device::GemmConfig config;
  config.out_type = element_type(call.first.out.dtype);
  const TmaMatrix one = out_matrix(call.first.out, config, "out");
  if (!broken_rule(stacked(one, layout.out_matrices(), layout.out)).empty())
    return device::Epilogue::general;
  if (dense == device::Epilogue::store) return dense;
  const bool in_place = call.first.c && call.first.c->data == call.first.out.data;
  return layout.kind == GroupKind::k && in_place ? device::Epilogue::reduce
                                                 : device::Epilogue::general;
}

device::Schedule schedule_of(const GroupLayout& layout) {
  if (layout.kind == GroupKind::k) return device::Schedule::k_groups;
  return layout.vector.form == GroupVectorForm::labels ? device::Schedule::labels
                                                       : device::Schedule::groups;
}

heuristics::GemmRequest request_of(const GroupedCall& call, const SmBudget& sms) {
  const GroupLayout& layout = call.layout;
  const RowsByK a = operand_a(call.first, call.product), b = operand_b(call.first, call.product);
  heuristics::GemmRequest request = fp8_request(call.product, call.first, a, b, sms.count);
  // Groups of K have factors per column; of one column they are factors per block as well.
  if (layout.kind == GroupKind::k) request.column_scales = true;
  request.epilogue = epilogue_of(request.epilogue, call);
  request.scales_by_tma =
      request.scales_by_tma && takes_factors_by_tma(a, layout, layout.a_matrices(), layout.sfa) &&
      (!request.column_scales || takes_factors_by_tma(b, layout, layout.b_matrices(), layout.sfb));
  // TMA starts at multiples of 16 bytes, and groups of rows start anywhere: four factors are 16
  // bytes. An H200 takes any other start for an illegal instruction.
  if (layout.kind == GroupKind::rows) request.scales_by_tma = false;
  request.schedule = schedule_of(layout);
  request.groups = layout.groups;
  (layout.kind == GroupKind::k ? request.k : request.m) = std::max<std::int64_t>(1, call.expected);
  return request;
}

// What a vector can ask for at most, in tiles of all columns.
std::int64_t most_row_tiles(const GroupedCall& call, std::int64_t tile_m) {
  const std::int64_t rows = ceil_div(call.product.m, tile_m), groups = call.layout.groups;
  return call.layout.kind == GroupKind::rows ? rows + groups : rows * groups;
}

}  // namespace

GroupedCall grouped_call(const GroupedProblem& problem, const GroupedArgs& args) {
  GroupedCall call = common_call(problem, args);
  call.first.a = args.a;
  call.first.out = args.out;
  call.first.c = args.c;
  call.layout.vector =
      vector_of(args.groups, form_of(args.form), problem.groups, problem.product.m, args.alignment);
  call.expected = ceil_div(problem.product.m, problem.groups);
  return call;
}

GroupedCall grouped_call(const GroupedProblem& problem, const MaskedArgs& args) {
  GroupedCall call = common_call(problem, args);
  call.first.a = first_of(args.a);
  call.first.out = selected(args.out, 0);
  call.first.c = first_of(args.c);
  call.layout.a = distance(args.a.values);
  call.layout.sfa = distance(args.a.sf);
  call.layout.out = distance(args.out);
  call.layout.c = distance(args.c);
  call.layout.vector =
      vector_of(args.rows, GroupVectorForm::masks, problem.groups, problem.product.m, 1);
  call.expected = std::min(args.expected_rows.value_or(problem.product.m), problem.product.m);
  return call;
}

GroupedCall grouped_call(const GroupedProblem& problem, const KGroupedArgs& args) {
  GroupedCall call;
  call.product = problem.product;
  call.first.a = args.a;
  call.first.b = args.b;
  call.first.out = selected(args.out, 0);
  call.first.c = first_of(args.c);
  call.first.alpha = args.alpha;
  call.first.layout = args.layout;
  call.layout.kind = problem.kind;
  call.layout.groups = problem.groups;
  call.layout.out = distance(args.out);
  call.layout.c = distance(args.c);
  call.layout.vector =
      vector_of(args.k_sizes, GroupVectorForm::sizes, problem.groups, problem.product.k, 1);
  if (args.a.sf && args.b.sf) {
    constexpr std::int64_t most = device::max_group_tiles;
    const std::int64_t blocks = std::min(args.a.sf->shape[1], args.b.sf->shape[1]);
    call.layout.blocks = static_cast<int>(std::min(blocks, most));
  }
  call.expected = ceil_div(problem.product.k, problem.groups);
  return call;
}

TmaMatrix factor_matrix(const RowsByK& operand, int box_rows, const char* name,
                        const GroupLayout& layout) {
  RowsByK counted = operand;
  if (layout.kind == GroupKind::k) counted.k = operand.sf->shape[1] * device::block_k;
  return factor_matrix(counted, box_rows, name);
}

std::string why_not_fp8(const GroupedCall& call) {
  const RowsByK a = operand_a(call.first, call.product), b = operand_b(call.first, call.product);
  if (call.product.a_dtype != DType::float8_e4m3fn || call.product.b_dtype != DType::float8_e4m3fn)
    return "a and b are not both float8_e4m3fn";
  if (std::string why = why_not_fp8(call.product, a, b); !why.empty()) return why;
  const device::GemmConfig some;
  const GroupLayout& layout = call.layout;
  if (auto rule = broken_rule(stacked(a_matrix(a, some), layout.a_matrices(), layout.a));
      !rule.empty())
    return join("a: ", rule);
  if (auto rule = broken_rule(stacked(b_matrix(b, some), layout.b_matrices(), layout.b));
      !rule.empty())
    return join("b: ", rule);
  if (layout.kind == GroupKind::k && !b.scaled_by(1, device::block_k))
    return "b has no float32 factors of granularity (1, 128)";
  constexpr std::int64_t smallest_tile_n = 16;
  const std::int64_t columns = ceil_div(call.product.n, smallest_tile_n);
  return most_row_tiles(call, device::unit_rows) > device::max_group_tiles / columns
             ? "there may be 2^30 tiles or more"
             : "";
}

GemmPlan make_grouped_plan(const GroupedCall& call, const Policy* policy, const SmBudget& sms) {
  if (policy && (policy->group || policy->raster_along_n)) {
    throw ValueError(complaint("policy", policy->group ? "group" : "raster_along_n",
                               "neither group nor raster_along_n",
                               "grouped products have a raster of their own"));
  }
  GemmPlan plan = fp8_plan(request_of(call, sms), policy);
  plan.reason = join("groups of ", plan.reason);
  // How many tiles there are is known on the device only.
  const device::GemmConfig& config = plan.choice.config;
  const std::int64_t columns = ceil_div(call.product.n, std::int64_t{config.tile_n});
  plan.grid = std::min<std::int64_t>(sms.count, most_row_tiles(call, config.tile_m) * columns);
  plan.choice.grid = static_cast<int>(plan.grid);
  plan.choice.raster_group = 8;  // row tiles of a group side by side
  return plan;
}

}  // namespace deepgemm::plan
