// Which granularity the shape of sf stands for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "deepgemm/gemm.hpp"
#include "deepgemm/scaling.hpp"

namespace deepgemm::ops {

// What is tried when the granularity is not given: the forms in use. The first that fits is taken.
std::span<const Granularity> readings_of_rows() noexcept;    // activations: (1, 128) first
std::span<const Granularity> readings_of_blocks() noexcept;  // weights: (128, 128) first

// Checks sf of an operand of `rows` x `k` (dtype, shape, device is the caller's) and resolves its
// granularity; the names are for errors. Readings that give every element the same factor are one
// reading; if two different ones fit, that is a ValueError which lists them. `turned_by` is the
// layout that has the operand as [K, rows]; its sf is then [K blocks, row blocks] too. Empty: rows
// first. Granularities are (rows, k) always.
Granularity resolve_granularity(std::string_view name, std::string_view sf_name,
                                const ScaledView& operand, std::int64_t rows, std::int64_t k,
                                std::span<const Granularity> readings,
                                std::string_view turned_by = {});
// A granularity of positive extents (or `whole`).
void check_granularity(std::string_view name, const Granularity& granularity);
// Whether sf has the shape that `granularity` asks for.
bool fits(const TensorView& sf, const Granularity& granularity, std::int64_t rows, std::int64_t k);
// sf: found shape ..., need shape ... (granularity ... of a ... operand)
[[noreturn]] void refuse_scale_shape(std::string_view sf_name, const TensorView& sf,
                                     const Granularity& granularity, std::int64_t rows,
                                     std::int64_t k, std::string_view turned_by = {});

// `args` with the factors of both operands as [rows, k], as plan and cpu take them; nothing where
// they lie so already, which is always so in layout nt.
std::optional<GemmArgs> with_scales_by_rows(const GemmArgs& args);

}  // namespace deepgemm::ops
