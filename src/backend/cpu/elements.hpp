// Runs of tensor elements to and from plain numbers: the only place of the CPU backend that knows
// how a dtype is stored.
#pragma once

#include <cstdint>

#include "deepgemm/tensor.hpp"

namespace deepgemm::cpu {

// `count` elements of `view`, from element offset `offset` (in elements, may be negative), `stride`
// elements apart.
struct Run {
  const TensorView& view;
  std::int64_t offset = 0;
  std::int64_t stride = 1;
  std::int64_t count = 0;
};

// Real is float or double. float64 elements are rounded once when read as float.
template <class Real>
void load(const Run& run, Real* to);
// Rounds to nearest even, once; float8 saturates. See device/common/float_formats.cuh.
template <class Real>
void store(const Run& run, const Real* from);

// Row `row` of a rank-2 view, columns [begin, begin + count).
inline Run row_of(const TensorView& view, std::int64_t row, std::int64_t begin,
                  std::int64_t count) {
  return {view, row * view.strides[0] + begin * view.strides[1], view.strides[1], count};
}

}  // namespace deepgemm::cpu
