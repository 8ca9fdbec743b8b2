// Group vectors: what they are called, their checks, and their values. Those in host memory are
// looked at; a GPU's are waited for only if DEEPGEMM_CHECK_GROUPS is set.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "deepgemm/grouped.hpp"
#include "ops/checks.hpp"

namespace deepgemm::ops {

// "group_sizes", "group_offsets", "group_ends", "labels"; a ValueError for none of the four.
std::string_view name_of(GroupForm form);
// dtype, rank, shape, extents, device, and no overlap with out.
void check_group_vector(const Operand& vector, std::int64_t length, std::string_view what,
                        const Operand& reference, const Operand& out);

// Whether a call looks at the values: in host memory always, on a GPU if DEEPGEMM_CHECK_GROUPS.
bool are_values_checked(const TensorView& vector);
// The values of a vector of int32 or int64. From a GPU they are copied behind what `stream` holds,
// and waited for; an Error if a CUDA graph captures the stream. It is the same `stream` below.
std::vector<std::int64_t> integers_of(const TensorView& vector, Stream stream);
// The rows of each group of a [rows, K]. A ValueError if the vector names rows that are not there,
// rows twice or backwards, or groups that are not there.
cpu::GroupRows rows_of_groups(const GroupedArgs& args, std::int64_t groups, std::int64_t rows,
                              Stream stream);
// rows[g] of a masked product, each 0 to `most`.
std::vector<std::int64_t> rows_of_masks(const TensorView& rows, std::int64_t most, Stream stream);
// k_sizes: 0 or more, multiples of `multiple`, and `k` at most in sum.
std::vector<std::int64_t> sizes_of_k(const TensorView& k_sizes, std::int64_t k,
                                     std::int64_t multiple, Stream stream);

}  // namespace deepgemm::ops
