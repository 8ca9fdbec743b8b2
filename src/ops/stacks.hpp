// Operands with one matrix per group or per product of a batch: [G, rows, columns], and the factors
// of each.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "deepgemm/scaling.hpp"
#include "ops/checks.hpp"

namespace deepgemm::ops {

// Groups or a batch: its words in errors, and whether one matrix may serve all.
struct StackKind {
  std::string_view dimension;  // "group"
  std::string_view items;      // "groups"
  std::string_view extent;     // "G"
  std::string_view index;      // "g"
  bool broadcasts;
};
inline constexpr StackKind of_groups{"group", "groups", "G", "g", false};
inline constexpr StackKind of_batch{"batch", "matrices", "B", "i", true};

// The groups are the outermost dimension: each matrix lies in a range of its own, and not element
// by element between the others. Rank 3; extents are checked already.
void check_groups_outermost(const Operand& stack, const StackKind& kind = of_groups);
// The granularity of one matrix of a stack. sf has rank 3, one item per matrix, or one element for
// all; where the kind broadcasts, also one item, or rank 2, for all. The factors of one matrix are
// called "sfb[g]" in errors. `turned_by` as in resolve_granularity().
Granularity resolve_stack(std::string_view name, std::string_view sf_name,
                          const ScaledView& operand, std::span<const Granularity> readings,
                          std::string_view turned_by = {}, const StackKind& kind = of_groups);
// The first matrix of a stack, which may have none: the first dimension is dropped.
TensorView without_first(const TensorView& view);
// A resolved sf as [G, rows, k] (strides of 0 if it is one element for all), and one turned by the
// layout turned back.
TensorView stacked_scales(const TensorView& sf, std::int64_t groups, bool turned = false);
// Matrix g with its factors, which stacked_scales() made.
ScaledView matrix_of(const ScaledView& stack, std::int64_t g);

}  // namespace deepgemm::ops
