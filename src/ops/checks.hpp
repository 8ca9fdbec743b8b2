// The argument checks that the operations share. Every failure is a ValueError or TypeError that
// names the operand, what was found, what is needed and the rule. Nothing here touches the data.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "deepgemm/gemm.hpp"
#include "deepgemm/tensor.hpp"

namespace deepgemm::ops {

// A tensor with the name that its errors use.
struct Operand {
  std::string_view name;
  const TensorView& view;
};

// The dtype is one of `allowed`. For integers the error says how bytes are viewed as float8.
void check_dtype(const Operand& operand, std::initializer_list<DType> allowed,
                 std::string_view rule = {});
void check_rank(const Operand& operand, int rank, std::string_view shape_in_words);
// No negative extent, and neither the bytes nor the span of the view overflow 64 bits.
void check_extents(const Operand& operand);
// `what`: the shape in words, "[M, N]".
void check_shape(const Operand& operand, std::initializer_list<std::int64_t> shape,
                 std::string_view what);
void check_device(const Operand& operand, const Operand& reference);
// Writable, and no two of its elements share memory: no zero stride, rows that do not overlap.
// Strides of dimensions with one element mean nothing and are ignored, here and everywhere.
void check_output(const Operand& operand);
// Elements but no memory: a "fake" or "meta" tensor.
void check_has_data(const Operand& operand);
// By byte ranges, but columns of one buffer (equal pitch, disjoint columns) are told apart.
void check_no_overlap(const Operand& output, const Operand& other);
bool overlaps(const TensorView& a, const TensorView& b) noexcept;
// The same elements at the same addresses with the same dtype.
bool same_memory(const TensorView& a, const TensorView& b) noexcept;

// num_sms of the call and of its policy: 0 (all) or more.
void check_sms(const CallOptions& options);

// "[4, 8]"
std::string shape_text(const TensorView& view);

}  // namespace deepgemm::ops
