// The reference: what every other backend is measured against. Arguments are already checked.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "deepgemm/gemm.hpp"
#include "deepgemm/grouped.hpp"
#include "deepgemm/quantize.hpp"

namespace deepgemm::cpu {

// problem = make_problem(args): granularities are resolved in it. Values lie as problem.layout
// says; sf is [rows, k] in every layout. FP32 sums promoted per 128 of K, or FP64 throughout if
// accumulate_in_f64.
void gemm(const GemmProblem& problem, const GemmArgs& args, bool accumulate_in_f64);

// Rows [begin, end) of a matrix.
struct RowRange {
  std::int64_t begin = 0, end = 0;
};
// The same, for these rows of a, c and out alone; all others are neither read nor written.
void gemm_rows(const GemmProblem& problem, const GemmArgs& args, std::span<const RowRange> ranges,
               bool accumulate_in_f64);

// The rows of each group, in order; no row is in two groups.
using GroupRows = std::vector<std::vector<RowRange>>;
// problem = make_problem(args). sf of a stack is [G, rows, k] with one matrix per group, in every
// layout (strides of 0 where one element is for all). The values of the group vector are checked
// and taken apart: `rows`, and `sizes` of K.
void grouped_gemm(const GroupedProblem& problem, const GroupedArgs& args, const GroupRows& rows,
                  bool accumulate_in_f64);
void masked_gemm(const GroupedProblem& problem, const MaskedArgs& args,
                 std::span<const std::int64_t> rows, bool accumulate_in_f64);
void k_grouped_gemm(const GroupedProblem& problem, const KGroupedArgs& args,
                    std::span<const std::int64_t> sizes, bool accumulate_in_f64);

void quantize(const TensorView& x, const TensorView& values, const TensorView& sf,
              const QuantizeOptions& options);
void dequantize(const ScaledView& x, const TensorView& out);

// Layouts of scale factors, all of them stacks [G, rows, columns] of 4-byte words.
void copy_scales(const TensorView& sf, const TensorView& out);
// The K blocks [begin, end) of a group, packed from column `packed` on.
struct PackedGroup {
  std::int64_t begin = 0, end = 0, packed = 0;
};
// Only `rows`; the others, and columns of no group, get 0. No group's columns lie outside.
void pack_ue8m0(const TensorView& sf, const TensorView& packed, std::span<const RowRange> rows,
                std::span<const PackedGroup> groups);
void unpack_ue8m0(const TensorView& packed, const TensorView& sf,
                  std::span<const PackedGroup> groups);
// The first factor among `rows` that has a sign or a mantissa: its matrix, row and column.
struct ScalePlace {
  std::int64_t matrix = 0, row = 0, column = 0;
};
std::optional<ScalePlace> first_not_power_of_two(const TensorView& sf,
                                                 std::span<const RowRange> rows);

}  // namespace deepgemm::cpu
