// Scale factors of one operand, read once into a plain table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "backend/cpu/elements.hpp"
#include "core/math.hpp"
#include "deepgemm/scaling.hpp"

namespace deepgemm::cpu {

// sf as the rank-2 view that scale_extents() describes; a per-tensor sf may have any rank.
inline TensorView as_matrix(const TensorView& sf, const ScaleExtents& extents) {
  TensorView matrix = sf;
  matrix.rank = 2;
  matrix.shape = {extents.rows, extents.k};
  if (sf.rank != 2) matrix.strides = {};
  return matrix;
}

template <class Real>
class ScaleTable {
 public:
  // Unscaled operands have one factor, 1.
  ScaleTable(const std::optional<TensorView>& sf, const Granularity& granularity, std::int64_t rows,
             std::int64_t k)
      : granularity_(sf ? granularity : per_tensor) {
    ScaleExtents extents = scale_extents(granularity_, rows, k);
    columns_ = extents.k;
    values_.assign(checked_elements<Real>("sf", {extents.rows, extents.k}), Real(1));
    if (!sf) return;
    TensorView matrix = as_matrix(*sf, extents);
    for (std::int64_t row = 0; row < extents.rows; ++row) {
      load(row_of(matrix, row, 0, columns_), values_.data() + row * columns_);
    }
  }

  Real at(std::int64_t row, std::int64_t k) const {
    std::int64_t i = granularity_.rows == Granularity::whole ? 0 : row / granularity_.rows;
    std::int64_t j = granularity_.k == Granularity::whole ? 0 : k / granularity_.k;
    return values_[static_cast<std::size_t>(i * columns_ + j)];
  }

  // Where the factor that holds at `k` ends, at most `limit`.
  std::int64_t end_of_block(std::int64_t k, std::int64_t limit) const {
    if (granularity_.k == Granularity::whole) return limit;
    std::int64_t left = granularity_.k - k % granularity_.k;
    return left < limit - k ? k + left : limit;
  }

 private:
  Granularity granularity_;
  std::int64_t columns_ = 0;
  std::vector<Real> values_;
};

}  // namespace deepgemm::cpu
