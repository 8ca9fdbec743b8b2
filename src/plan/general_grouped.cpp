#include "plan/general_grouped.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "core/math.hpp"
#include "core/text.hpp"
#include "plan/kernel_specs.hpp"
#include "plan/operands.hpp"

namespace deepgemm::plan {
namespace {

using device::GroupSchedule;

constexpr std::int64_t tile = device::GeneralConfig::tile;

void check_extent(std::string_view name, std::string_view what, std::int64_t extent) {
  if (extent <= most_extent) return;
  throw ValueError(complaint(name, join(what, " = ", extent), join(most_extent, " at most"),
                             "the schedule of groups counts in 32 bits"));
}

void check_tiles(const GroupedCall& call, std::int64_t tiles) {
  if (tiles <= device::max_group_tiles) return;
  throw ValueError(complaint("out",
                             join(call.product.m, " x ", call.product.n, " in ", call.layout.groups,
                                  " groups, ", tiles, " tiles of 64 x 64"),
                             join(device::max_group_tiles, " tiles at most"),
                             "the schedule of groups counts in 32 bits"));
}

}  // namespace

GeneralGrouped general_grouped(const GroupedCall& call) {
  const GemmProblem& product = call.product;
  const GroupLayout& layout = call.layout;
  const bool along_k = layout.kind == GroupKind::k;
  const bool labels = layout.vector.form == device::GroupVectorForm::labels;
  check_extent("a", "M", product.m);
  check_extent("b", "N", product.n);
  if (along_k) check_extent("a", "K", product.k);
  check_extent(along_k ? "k_sizes" : "b", "G", layout.groups);
  GeneralGrouped made;
  made.config.schedule = along_k  ? GroupSchedule::k
                         : labels ? GroupSchedule::labels
                                  : GroupSchedule::rows;
  device::GeneralGroupedParams& params = made.params;
  params.product = general_params(product, call.first);
  params.groups = layout.vector;
  params.a_group = layout.a;
  params.sfa_group = layout.sfa;
  params.b_group = layout.b;
  params.sfb_group = layout.sfb;
  params.bias_group = layout.bias;
  params.out_group = layout.out;
  params.c_group = layout.c;
  params.scale_blocks = layout.blocks;
  std::int64_t row_tiles = ceil_div(product.m, tile);
  if (layout.kind != GroupKind::rows) {
    row_tiles *= layout.groups;
  } else if (!labels) {
    row_tiles += layout.groups;  // each group may start a row tile that another one ends in
  }
  made.tiles = row_tiles * ceil_div(product.n, tile);
  check_tiles(call, made.tiles);
  return made;
}

GemmPlan general_grouped_plan(const GroupedCall& call, const SmBudget& sms, std::string reason) {
  const GeneralGrouped made = general_grouped(call);
  GemmPlan plan;
  plan.reason = std::move(reason);
  plan.spec = general_grouped_spec(made.config);
  plan.threads = device::GeneralConfig::threads;
  plan.grid = std::min<std::int64_t>(made.tiles, sms.count);
  plan.shared_bytes = plan.spec.shared_bytes;
  return plan;
}

}  // namespace deepgemm::plan
