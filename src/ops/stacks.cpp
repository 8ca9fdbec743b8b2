#include "ops/stacks.hpp"

#include <cstdlib>
#include <optional>
#include <string>

#include "core/text.hpp"
#include "ops/granularity.hpp"

namespace deepgemm::ops {
namespace {

// One factor for every group, whatever its rank.
bool is_one_for_all(const ScaledView& operand) {
  const bool names_all = !operand.granularity || *operand.granularity == per_tensor;
  return operand.sf->size() == 1 && names_all &&
         (operand.sf->rank != 3 || operand.values.shape[0] != 1);
}

}  // namespace

void check_groups_outermost(const Operand& stack) {
  const TensorView& view = stack.view;
  if (view.size() == 0 || view.shape[0] == 1) return;
  std::int64_t last = 0;  // offset of a matrix's last element; check_extents() saw that it fits
  for (int i = 1; i < view.rank; ++i) last += (view.shape[i] - 1) * std::abs(view.strides[i]);
  if (std::abs(view.strides[0]) > last) return;
  throw ValueError(complaint(stack.name, describe(view),
                             join("a stride of ", last + 1, " or more between groups"),
                             "the group dimension is the outermost in memory"));
}

Granularity resolve_stack(std::string_view name, std::string_view sf_name,
                          const ScaledView& operand, std::span<const Granularity> readings,
                          std::string_view turned_by) {
  if (!operand.sf || is_one_for_all(operand)) return per_tensor;
  const TensorView& sf = *operand.sf;
  const std::int64_t groups = operand.values.shape[0];
  const bool turned = !turned_by.empty();
  const Operand factors{sf_name, sf};
  check_rank(factors, 3,
             turned ? "[G, K blocks, row blocks], or one element"
                    : "[G, row blocks, K blocks], or one element");
  if (sf.shape[0] != groups) {
    throw ValueError(complaint(sf_name,
                               join("shape ", shape_text(sf), ", ", sf.shape[0], " groups"),
                               join(groups, " groups"), join("as ", name, " has")));
  }
  check_groups_outermost(factors);
  ScaledView matrix = operand;
  matrix.sf = sf;
  matrix.sf->rank = 2;
  for (int i = 0; i < 2; ++i) {
    matrix.sf->shape[i] = sf.shape[i + 1];
    matrix.sf->strides[i] = sf.strides[i + 1];
  }
  const std::int64_t rows = operand.values.shape[turned ? 2 : 1];
  const std::int64_t k = operand.values.shape[turned ? 1 : 2];
  return resolve_granularity(name, join(sf_name, "[g]"), matrix, rows, k, readings, turned_by);
}

TensorView stacked_scales(const TensorView& sf, std::int64_t groups, bool turned) {
  if (sf.rank == 3 && sf.shape[0] == groups) return turned ? transposed(sf) : sf;
  TensorView all = sf;
  all.rank = 3;
  all.shape = {groups, 1, 1};
  all.strides = {};
  return all;
}

ScaledView matrix_of(const ScaledView& stack, std::int64_t g) {
  ScaledView matrix{selected(stack.values, g), std::nullopt, stack.granularity};
  if (stack.sf) matrix.sf = selected(*stack.sf, g);
  return matrix;
}

}  // namespace deepgemm::ops
