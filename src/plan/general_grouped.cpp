#include "plan/general_grouped.hpp"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

#include "core/math.hpp"
#include "core/text.hpp"
#include "driver/driver.hpp"
#include "plan/kernel_specs.hpp"
#include "plan/operands.hpp"

namespace deepgemm::plan {
namespace {

using device::GroupSchedule;
using device::GroupVectorForm;

// Rows, columns and groups count in 32 bits, and so do the starts of tiles past the last one.
constexpr std::int64_t most_extent = std::numeric_limits<std::int32_t>::max() - 1024;
constexpr std::int64_t tile = device::GeneralConfig::tile;

void check_extent(std::string_view name, std::string_view what, std::int64_t extent) {
  if (extent <= most_extent) return;
  throw ValueError(complaint(name, join(what, " = ", extent), join(most_extent, " at most"),
                             "the schedule of groups counts in 32 bits"));
}

void check_tiles(const GroupedProblem& problem, std::int64_t tiles) {
  if (tiles <= device::max_group_tiles) return;
  throw ValueError(complaint("out",
                             join(problem.product.m, " x ", problem.product.n, " in ",
                                  problem.groups, " groups, ", tiles, " tiles of 64 x 64"),
                             join(device::max_group_tiles, " tiles at most"),
                             "the schedule of groups counts in 32 bits"));
}

device::GroupVector vector_of(const TensorView& view, GroupVectorForm form, std::int64_t groups,
                              std::int64_t rows, std::int64_t alignment = 1) {
  device::GroupVector vector{};
  vector.data = view.data;
  vector.step = view.strides[0];
  vector.is_64_bit = view.dtype == DType::int64 ? 1 : 0;
  vector.form = form;
  vector.groups = static_cast<std::int32_t>(groups);
  vector.rows = static_cast<std::int32_t>(rows);
  // Any alignment past the last row puts the next group behind it.
  vector.alignment = static_cast<std::int32_t>(std::min(alignment, most_extent));
  return vector;
}

// The matrices of group 0, and how far apart the groups' are.
std::optional<TensorView> first(const std::optional<TensorView>& stack) {
  if (!stack) return std::nullopt;
  return selected(*stack, 0);
}
ScaledView first(const ScaledView& stack) {
  return {selected(stack.values, 0), first(stack.sf), stack.granularity};
}
std::int64_t apart(const std::optional<TensorView>& stack) { return stack ? stack->strides[0] : 0; }

GroupVectorForm form_of(GroupForm form) {
  switch (form) {
    case GroupForm::offsets:
      return GroupVectorForm::offsets;
    case GroupForm::ends:
      return GroupVectorForm::ends;
    case GroupForm::labels:
      return GroupVectorForm::labels;
    default:
      return GroupVectorForm::sizes;
  }
}

// What grouped_gemm and masked_gemm have in common, of group 0.
GemmArgs args_of_group(const RowGroupArgs& args) {
  GemmArgs dense;
  dense.b = first(args.b);
  dense.bias = first(args.bias);
  dense.activation = args.activation;
  dense.alpha = args.alpha;
  dense.layout = args.layout;
  return dense;
}

GeneralGrouped of_group(const GroupedProblem& problem, const RowGroupArgs& args,
                        const GemmArgs& dense) {
  check_extent("a", "M", problem.product.m);
  check_extent("b", "N", problem.product.n);
  check_extent("b", "G", problem.groups);
  GeneralGrouped call;
  call.params.product = general_params(problem.product, dense);
  call.params.b_group = apart(args.b.values);
  call.params.sfb_group = apart(args.b.sf);
  call.params.bias_group = apart(args.bias);
  return call;
}

}  // namespace

GeneralGrouped general_grouped(const GroupedProblem& problem, const GroupedArgs& args) {
  GemmArgs dense = args_of_group(args);
  dense.a = args.a;
  dense.c = args.c;
  dense.out = args.out;
  GeneralGrouped call = of_group(problem, args, dense);
  const GemmProblem& product = problem.product;
  const bool labels = args.form == GroupForm::labels;
  call.config.schedule = labels ? GroupSchedule::labels : GroupSchedule::rows;
  call.params.groups =
      vector_of(args.groups, form_of(args.form), problem.groups, product.m, args.alignment);
  // Each group may start a row tile that another one ends in.
  const std::int64_t row_tiles = ceil_div(product.m, tile) + (labels ? 0 : problem.groups);
  call.tiles = row_tiles * ceil_div(product.n, tile);
  check_tiles(problem, call.tiles);
  return call;
}

GeneralGrouped general_grouped(const GroupedProblem& problem, const MaskedArgs& args) {
  GemmArgs dense = args_of_group(args);
  dense.a = first(args.a);
  dense.c = first(args.c);
  dense.out = selected(args.out, 0);
  GeneralGrouped call = of_group(problem, args, dense);
  const GemmProblem& product = problem.product;
  call.params.groups = vector_of(args.rows, GroupVectorForm::masks, problem.groups, product.m);
  call.params.a_group = apart(args.a.values);
  call.params.sfa_group = apart(args.a.sf);
  call.params.out_group = apart(args.out);
  call.params.c_group = apart(args.c);
  call.tiles = problem.groups * ceil_div(product.m, tile) * ceil_div(product.n, tile);
  check_tiles(problem, call.tiles);
  return call;
}

GeneralGrouped general_grouped(const GroupedProblem& problem, const KGroupedArgs& args) {
  const GemmProblem& product = problem.product;
  check_extent("a", "M", product.m);
  check_extent("b", "N", product.n);
  check_extent("a", "K", product.k);
  check_extent("k_sizes", "G", problem.groups);
  GemmArgs dense;
  dense.a = args.a;
  dense.b = args.b;
  dense.c = first(args.c);
  dense.out = selected(args.out, 0);
  dense.alpha = args.alpha;
  dense.layout = args.layout;
  GeneralGrouped call;
  call.config.schedule = GroupSchedule::k;
  call.params.product = general_params(product, dense);
  call.params.groups = vector_of(args.k_sizes, GroupVectorForm::sizes, problem.groups, product.k);
  call.params.out_group = apart(args.out);
  call.params.c_group = apart(args.c);
  std::int64_t blocks = std::numeric_limits<std::int32_t>::max();
  for (const std::optional<TensorView>& sf : {args.a.sf, args.b.sf}) {
    if (sf) blocks = std::min(blocks, sf->shape[1]);
  }
  call.params.scale_blocks = blocks;
  call.tiles = problem.groups * ceil_div(product.m, tile) * ceil_div(product.n, tile);
  check_tiles(problem, call.tiles);
  return call;
}

void run(GeneralGrouped call, int device, const SmBudget& sms, Stream stream) {
  const jit::KernelSpec spec = general_grouped_spec(call.config);
  driver::LaunchShape shape;
  shape.grid = static_cast<unsigned>(std::min<std::int64_t>(call.tiles, sms.count));
  shape.block = device::GeneralConfig::threads;
  shape.shared_bytes = static_cast<unsigned>(spec.shared_bytes);
  driver::launch(jit::load(spec, device).function, shape, stream, &call.params);
}

}  // namespace deepgemm::plan
