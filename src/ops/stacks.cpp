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

void check_groups_outermost(const Operand& stack, const StackKind& kind) {
  const TensorView& view = stack.view;
  if (view.size() == 0 || view.shape[0] == 1) return;
  std::int64_t last = 0;  // offset of a matrix's last element; check_extents() saw that it fits
  for (int i = 1; i < view.rank; ++i) last += (view.shape[i] - 1) * std::abs(view.strides[i]);
  if (std::abs(view.strides[0]) > last) return;
  throw ValueError(complaint(
      stack.name, describe(view), join("a stride of ", last + 1, " or more between ", kind.items),
      join("the ", kind.dimension, " dimension is the outermost in memory")));
}

Granularity resolve_stack(std::string_view name, std::string_view sf_name,
                          const ScaledView& operand, std::span<const Granularity> readings,
                          std::string_view turned_by, const StackKind& kind) {
  if (!operand.sf || is_one_for_all(operand)) return per_tensor;
  const bool turned = !turned_by.empty();
  const std::int64_t rows = operand.values.shape[turned ? 2 : 1];
  const std::int64_t k = operand.values.shape[turned ? 1 : 2];
  const TensorView& sf = *operand.sf;
  if (kind.broadcasts && sf.rank <= 2) {
    return resolve_granularity(name, sf_name, operand, rows, k, readings, turned_by);
  }
  const Operand factors{sf_name, sf};
  if (sf.rank != 3) {
    check_rank(factors, 3,
               join("[", kind.extent, turned ? ", K blocks, row" : ", row blocks, K",
                    " blocks], or ", kind.broadcasts ? "rank 2, for all" : "one element"));
  }
  const std::int64_t matrices = operand.values.shape[0];
  if (sf.shape[0] != matrices && !(kind.broadcasts && sf.shape[0] == 1)) {
    const bool or_one = kind.broadcasts && matrices != 1;
    throw ValueError(complaint(sf_name,
                               join("shape ", shape_text(sf), ", ", sf.shape[0], " ", kind.items),
                               join(matrices, " ", kind.items, or_one ? ", or 1 for all" : ""),
                               join("as ", name, " has")));
  }
  if (!kind.broadcasts) check_groups_outermost(factors, kind);
  ScaledView matrix = operand;
  matrix.sf = without_first(sf);
  return resolve_granularity(name, join(sf_name, "[", kind.index, "]"), matrix, rows, k, readings,
                             turned_by);
}

TensorView without_first(const TensorView& view) {
  TensorView rest = view;
  rest.rank = view.rank - 1;
  for (int i = 0; i < rest.rank; ++i) {
    rest.shape[i] = view.shape[i + 1];
    rest.strides[i] = view.strides[i + 1];
  }
  return rest;
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
