#include "plan/grouped_plan.hpp"

#include <algorithm>
#include <utility>

#include "core/math.hpp"
#include "core/text.hpp"
#include "plan/gemm_policy.hpp"
#include "plan/general_grouped.hpp"
#include "plan/tma_matrices.hpp"

namespace deepgemm::plan {
namespace {

bool takes_factors_by_tma(const RowsByK& operand, const GroupLayout& layout, std::int64_t matrices,
                          std::int64_t apart) {
  if (operand.sf == nullptr) return true;
  const TmaMatrix one = factor_matrix(operand, device::block_k, "sf", layout);
  return broken_rule(stacked(one, matrices, apart)).empty();
}

// TMA adds to D only where all of a tile is the group's.
device::Epilogue epilogue_of(device::Epilogue dense, const GroupedCall& call) {
  const GroupLayout& layout = call.layout;
  if (dense == device::Epilogue::general) return dense;
  if (!moves_as_out(call.first.out, layout.out_matrices(), layout.out))
    return device::Epilogue::general;
  if (dense == device::Epilogue::store) return dense;
  const bool in_place = call.first.out.dtype == DType::float32 && call.first.c &&
                        call.first.c->data == call.first.out.data;
  return layout.kind == GroupKind::k && in_place ? device::Epilogue::reduce
                                                 : device::Epilogue::general;
}

device::Schedule schedule_of(const GroupLayout& layout) {
  if (layout.kind == GroupKind::k) return device::Schedule::k_groups;
  return layout.vector.form == device::GroupVectorForm::labels ? device::Schedule::labels
                                                               : device::Schedule::groups;
}

heuristics::GemmRequest request_of(const GroupedCall& call, const SmBudget& sms) {
  const GroupLayout& layout = call.layout;
  const RowsByK a = operand_a(call.first, call.product), b = operand_b(call.first, call.product);
  heuristics::GemmRequest request = persistent_request(call.product, call.first, a, b, sms.count);
  // Groups of K have factors per column; of one column they are factors per block as well.
  if (layout.kind == GroupKind::k && a.sf != nullptr) request.column_scales = true;
  request.epilogue = epilogue_of(request.epilogue, call);
  request.scales_by_tma =
      request.scales_by_tma && takes_factors_by_tma(a, layout, layout.a_matrices(), layout.sfa) &&
      (!request.column_scales || takes_factors_by_tma(b, layout, layout.b_matrices(), layout.sfb));
  request.schedule = schedule_of(layout);
  request.groups = layout.groups;
  request.most_m = call.product.m;
  (layout.kind == GroupKind::k ? request.k : request.m) = std::max<std::int64_t>(1, call.expected);
  return request;
}

// What a vector can ask for at most, in tiles of all columns.
std::int64_t most_row_tiles(const GroupedCall& call, std::int64_t tile_m) {
  const std::int64_t rows = ceil_div(call.product.m, tile_m), groups = call.layout.groups;
  return call.layout.kind == GroupKind::rows ? rows + groups : rows * groups;
}

// Empty if the persistent kernel takes the call, else why not; ValueError if the policy asks for a
// kernel that cannot.
std::string why_general(const GroupedCall& call, const Policy* policy) {
  using Choice = WantedKernel::Choice;
  const WantedKernel wanted = wanted_kernel(policy);
  if (wanted.choice == Choice::general) return "policy asks for it";
  if (wanted.choice == Choice::decode) check_possible(wanted, "the product is grouped");
  std::string obstacle = why_not_persistent(call);
  if (wanted.choice != Choice::any) check_possible(wanted, obstacle);
  return obstacle;
}

}  // namespace

TmaMatrix factor_matrix(const RowsByK& operand, int box_rows, const char* name,
                        const GroupLayout& layout) {
  RowsByK counted = operand;
  if (layout.kind == GroupKind::k) counted.k = operand.sf->shape[1] * device::block_k;
  return factor_matrix(counted, box_rows, name);
}

std::string why_not_persistent(const GroupedCall& call) {
  const RowsByK a = operand_a(call.first, call.product), b = operand_b(call.first, call.product);
  const bool e5m2 =
      call.product.a_dtype == DType::float8_e5m2 || call.product.b_dtype == DType::float8_e5m2;
  if (e5m2) return "a and b are not both float8_e4m3fn";
  if (std::string why = why_not_persistent(call.product, a, b); !why.empty()) return why;
  const device::GemmConfig some = smallest_config(call.product, a, b);
  const GroupLayout& layout = call.layout;
  if (layout.kind != GroupKind::k && some.a_mn_major) return "a is not K-major";
  if (auto rule = broken_rule(stacked(a_matrix(a, some), layout.a_matrices(), layout.a));
      !rule.empty())
    return join("a: ", rule);
  if (auto rule = broken_rule(stacked(b_matrix(b, some), layout.b_matrices(), layout.b));
      !rule.empty())
    return join("b: ", rule);
  if (layout.kind == GroupKind::k && b.sf != nullptr && !b.scaled_by(1, device::block_k))
    return "b has no float32 factors of granularity (1, 128)";
  constexpr std::int64_t smallest_tile_n = 16;
  const std::int64_t columns = ceil_div(call.product.n, smallest_tile_n);
  return most_row_tiles(call, device::unit_rows) > device::max_group_tiles / columns
             ? "there may be 2^30 tiles or more"
             : "";
}

GemmPlan make_grouped_plan(const GroupedCall& call, const Policy* policy, const SmBudget& sms) {
  if (policy && policy->raster_along_n) {
    throw ValueError(complaint("policy", "raster_along_n", "no raster_along_n",
                               "the tiles of a group lie in bands along M"));
  }
  GemmPlan plan = persistent_plan(request_of(call, sms), policy);
  plan.reason = join("groups of ", plan.reason);
  // How many tiles there are is known on the device only.
  const device::GemmConfig& config = plan.choice.config;
  const std::int64_t columns = ceil_div(call.product.n, std::int64_t{config.tile_n});
  plan.grid = std::min<std::int64_t>(sms.count, most_row_tiles(call, config.tile_m) * columns);
  plan.choice.grid = static_cast<int>(plan.grid);
  return plan;
}

GemmPlan choose_grouped_plan(const GroupedCall& call, const Policy* policy, const SmBudget& sms) {
  std::string obstacle = why_general(call, policy);
  if (obstacle.empty()) return make_grouped_plan(call, policy, sms);
  return general_grouped_plan(call, sms, std::move(obstacle));
}

}  // namespace deepgemm::plan
