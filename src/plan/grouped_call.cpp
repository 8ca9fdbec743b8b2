#include "plan/grouped_call.hpp"

#include <algorithm>
#include <limits>
#include <optional>

#include "core/math.hpp"
#include "plan/operands.hpp"

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
  // Any alignment past the last row puts the next group behind it.
  vector.alignment = static_cast<int>(std::min(alignment, most_extent));
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
  call.layout.b_stacked = true;
  call.layout.a_stacked = call.layout.out_stacked = problem.kind == GroupKind::masked;
  call.layout.b = distance(args.b.values);
  call.layout.sfb = distance(args.b.sf);
  call.layout.bias = distance(args.bias);
  return call;
}

}  // namespace

GroupLayout batch_layout(const GemmBatch& batch) {
  GroupLayout layout;
  layout.groups = batch.count;
  layout.a = batch.a;
  layout.b = batch.b;
  layout.out = batch.out;
  layout.c = batch.c;
  layout.a_stacked = batch.a != 0;
  layout.b_stacked = batch.b != 0;
  layout.out_stacked = batch.out != 0;
  return layout;
}

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
  call.layout.out_stacked = true;
  call.layout.out = distance(args.out);
  call.layout.c = distance(args.c);
  call.layout.vector =
      vector_of(args.k_sizes, GroupVectorForm::sizes, problem.groups, problem.product.k, 1);
  call.layout.blocks = std::numeric_limits<std::int32_t>::max();
  for (const std::optional<TensorView>& sf : {args.a.sf, args.b.sf}) {
    if (sf) call.layout.blocks = std::min(call.layout.blocks, sf->shape[1]);
  }
  call.expected = ceil_div(problem.product.k, problem.groups);
  return call;
}

}  // namespace deepgemm::plan
