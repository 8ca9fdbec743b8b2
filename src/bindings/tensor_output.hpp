// New arrays for results, in the framework and on the device of an input.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "bindings/tensor_import.hpp"

namespace deepgemm::bindings {

struct Output {
  nb::object object;  // what the caller gets, after finish()
  TensorView view;
  Array array;
};

// Row-major and uninitialised. float8 and bfloat16 come in the framework's own dtype where it has
// one, else as a View over unsigned integers.
Output allocate_like(const Array& like, DType dtype, std::initializer_list<std::int64_t> shape);
// [rows, k] of 4-byte numbers whose rows are the contiguous direction, padded to 16 bytes: the fast
// layout of the scale factors of (1, k). Row-major for jax, which has no strides.
Output allocate_fast_scales(const Array& like, DType dtype, std::int64_t rows, std::int64_t k);
// [groups, rows, k], each matrix in that layout.
Output allocate_fast_scales(const Array& like, DType dtype, std::int64_t groups, std::int64_t rows,
                            std::int64_t k);
Output allocate_numpy(DType dtype, const std::int64_t* shape, int rank);

// Waits where the framework cannot order itself after us (jax on a GPU), and hands the result over.
nb::object finish(Output& output, const Array& like, Stream stream);

}  // namespace deepgemm::bindings
