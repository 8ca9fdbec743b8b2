// Grouped products: a dense one for each group, of the group's part of the arrays.
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "core/math.hpp"

namespace deepgemm::cpu {
namespace {

std::optional<TensorView> selected(const std::optional<TensorView>& stack, std::int64_t g) {
  if (!stack) return std::nullopt;
  return deepgemm::selected(*stack, g);
}

ScaledView selected(const ScaledView& stack, std::int64_t g) {
  return {deepgemm::selected(stack.values, g), selected(stack.sf, g), stack.granularity};
}

// Rows [begin, begin + count) of a with their factors, if each row has its own.
ScaledView rows_of(const ScaledView& a, const Granularity& granularity, std::int64_t begin,
                   std::int64_t count) {
  ScaledView rows = a;
  rows.values = narrowed(a.values, 0, begin, count);
  if (a.sf && granularity.rows == 1) rows.sf = narrowed(*a.sf, 0, begin, count);
  return rows;
}

// What follows the sum, of the matrix of group g.
GemmArgs args_of_group(const RowGroupArgs& args, std::int64_t g) {
  GemmArgs dense;
  dense.b = selected(args.b, g);
  dense.bias = selected(args.bias, g);
  dense.activation = args.activation;
  dense.alpha = args.alpha;
  dense.layout = args.layout;
  return dense;
}

// A slice of K of a [rows, K] or [K, rows] operand, with the blocks of factors that cover it.
ScaledView slice_of_k(const ScaledView& operand, bool turned, std::int64_t begin, std::int64_t size,
                      std::int64_t first_block, std::int64_t blocks) {
  ScaledView slice = operand;
  slice.values = narrowed(operand.values, turned ? 0 : 1, begin, size);
  if (operand.sf) slice.sf = narrowed(*operand.sf, 1, first_block, blocks);
  return slice;
}

}  // namespace

void grouped_gemm(const GroupedProblem& problem, const GroupedArgs& args, const GroupRows& rows,
                  bool accumulate_in_f64) {
  for (std::int64_t g = 0; g < problem.groups; ++g) {
    std::vector<RowRange> ranges = rows[static_cast<std::size_t>(g)];
    if (ranges.empty()) continue;
    // Only the rows between the group's first and last: the tables of factors are as long.
    const std::int64_t first = ranges.front().begin, count = ranges.back().end - first;
    for (RowRange& range : ranges) range.begin -= first, range.end -= first;
    GemmArgs dense = args_of_group(args, g);
    GemmProblem product = problem.product;
    product.m = count;
    dense.a = rows_of(args.a, product.a_granularity, first, count);
    dense.out = narrowed(args.out, 0, first, count);
    if (args.c) dense.c = narrowed(*args.c, 0, first, count);
    gemm_rows(product, dense, ranges, accumulate_in_f64);
  }
}

void masked_gemm(const GroupedProblem& problem, const MaskedArgs& args,
                 std::span<const std::int64_t> rows, bool accumulate_in_f64) {
  for (std::int64_t g = 0; g < problem.groups; ++g) {
    const std::int64_t count = rows[static_cast<std::size_t>(g)];
    if (count == 0) continue;
    GemmArgs dense = args_of_group(args, g);
    GemmProblem product = problem.product;
    product.m = count;
    dense.a = rows_of(selected(args.a, g), product.a_granularity, 0, count);
    dense.out = narrowed(deepgemm::selected(args.out, g), 0, 0, count);
    if (args.c) dense.c = narrowed(deepgemm::selected(*args.c, g), 0, 0, count);
    gemm(product, dense, accumulate_in_f64);
  }
}

void k_grouped_gemm(const GroupedProblem& problem, const KGroupedArgs& args,
                    std::span<const std::int64_t> sizes, bool accumulate_in_f64) {
  std::int64_t begin = 0, first_block = 0;
  for (std::int64_t g = 0; g < problem.groups; ++g) {
    const std::int64_t size = sizes[static_cast<std::size_t>(g)];
    const std::int64_t blocks = ceil_div(size, 128);
    GemmProblem product = problem.product;
    product.k = size;
    GemmArgs dense;
    dense.a = slice_of_k(args.a, a_is_k_by_m(args.layout), begin, size, first_block, blocks);
    dense.b = slice_of_k(args.b, b_is_k_by_n(args.layout), begin, size, first_block, blocks);
    dense.out = deepgemm::selected(args.out, g);
    dense.c = selected(args.c, g);
    dense.alpha = args.alpha;
    dense.layout = args.layout;
    gemm(product, dense, accumulate_in_f64);
    begin += size;
    first_block += blocks;
  }
}

}  // namespace deepgemm::cpu
