// Group vectors: what they are called, their checks, and their values where they lie in host
// memory. Values are looked at on the CPU only; a GPU's are never waited for.
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

// The values of a vector in host memory, of int32 or int64.
std::vector<std::int64_t> integers_of(const TensorView& vector);
// The rows of each group of a [rows, K]. A ValueError if the vector names rows that are not there,
// rows twice or backwards, or groups that are not there.
cpu::GroupRows rows_of_groups(const GroupedArgs& args, std::int64_t groups, std::int64_t rows);
// rows[g] of a masked product, each 0 to `most`.
std::vector<std::int64_t> rows_of_masks(const TensorView& rows, std::int64_t most);
// k_sizes: 0 or more, multiples of `multiple`, and `k` at most in sum.
std::vector<std::int64_t> sizes_of_k(const TensorView& k_sizes, std::int64_t k,
                                     std::int64_t multiple);

}  // namespace deepgemm::ops
