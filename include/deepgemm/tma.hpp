// TMA descriptors (CUtensorMap) from a tensor view, a tile and a swizzle.
#pragma once

#include <array>
#include <cstdint>

#include "deepgemm/tensor.hpp"

namespace deepgemm::tma {

enum class Swizzle : std::uint8_t { none, b32, b64, b128 };
enum class L2Promotion : std::uint8_t { none, b64, b128, b256 };

// Extents of the box that one copy moves, in elements, in the view's own dimension order (as many
// as the view's rank; the last dimension is the contiguous one).
using Tile = std::array<std::int64_t, max_rank>;

// The 128 opaque bytes that a kernel takes as a __grid_constant__ parameter.
struct alignas(64) Descriptor {
  std::array<std::uint64_t, 16> opaque{};
};

// `operand` names the tensor in errors. Every rule of cuTensorMapEncodeTiled is checked first, so
// an illegal view is a ValueError that names operand, value and rule; needs a driver otherwise.
DEEPGEMM_API Descriptor make_descriptor(const TensorView& view, const Tile& tile, Swizzle swizzle,
                                        L2Promotion promotion = L2Promotion::b256,
                                        const char* operand = "tensor");
// Empty if legal, else the first broken rule in words ("row pitch is 130 bytes, must be a multiple
// of 16"). Needs no driver: dispatch uses it to choose between the TMA path and the general one.
DEEPGEMM_API std::string broken_rule(const TensorView& view, const Tile& tile, Swizzle swizzle);

// The fields of a legal descriptor in words, innermost dimension first: "uint8, 7168 x 4096, pitch
// 7168 bytes, box 128 x 128, swizzle 128 bytes, L2 promotion 256 bytes". Needs no driver.
DEEPGEMM_API std::string describe(const TensorView& view, const Tile& tile, Swizzle swizzle,
                                  L2Promotion promotion = L2Promotion::b256);

}  // namespace deepgemm::tma
