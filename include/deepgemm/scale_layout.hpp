// Layouts of scale factors: rows contiguous, as the kernels read them fastest, and exponents packed
// by fours along K, as SM100 takes them. Every function takes [rows, K blocks] or a stack
// [G, rows, K blocks], any strides on both sides, and writes elements of its output alone, never
// its padding.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "deepgemm/gemm.hpp"
#include "deepgemm/tensor.hpp"

namespace deepgemm {

// Groups of rows by their ends, as in GroupedArgs: group g ends before row ends[g] and starts where
// the one before it ends, rounded up to a multiple of `alignment`.
struct RowEnds {
  TensorView ends;  // [groups] int32 or int64, on the factors' device
  std::int64_t alignment = 1;
};
// Groups along K: group g has the next ceil(sizes[g] / k_per_scale) K blocks, and is packed by
// itself.
struct KSizes {
  TensorView sizes;  // likewise
  std::int64_t k_per_scale = 128;
};
// At most one of them. On a GPU their values are read by the kernel, and not checked.
struct PackGroups {
  std::optional<RowEnds> rows;
  std::optional<KSizes> k;
};

// out = sf: the same bits in another layout. float32 or int32.
DEEPGEMM_API void copy_scales(const TensorView& sf, const TensorView& out,
                              const CallOptions& call = {});
// Byte j of packed[r, i] is the exponent (bits 23 to 30) of sf[r, 4 i + j]; 0 past the last one.
//   sf      float32. A factor with a sign or a mantissa is a ValueError in host memory; on a GPU,
//           where nobody waits for it, its code is 255, which is infinity and so shows.
//   packed  int32 [rows, packed_blocks(K blocks)]. With groups of rows, a row of no group gets 0
//           whatever sf holds there; with groups along K, so do columns past the last group.
DEEPGEMM_API void pack_ue8m0(const TensorView& sf, const TensorView& packed,
                             const PackGroups& groups = {}, const CallOptions& call = {});
// The inverse: sf[r, i] has the exponent in byte i % 4 of packed[r, i / 4], so that 0 is 0.0 and
// 255 infinity. sf has at most four times packed's columns; with groups, 0.0 past the last one.
DEEPGEMM_API void unpack_ue8m0(const TensorView& packed, const TensorView& sf,
                               const std::optional<KSizes>& groups = {},
                               const CallOptions& call = {});

// Columns of packed exponents: ceil(blocks / 4).
constexpr std::int64_t packed_blocks(std::int64_t blocks) noexcept {
  return blocks / 4 + (blocks % 4 > 0 ? 1 : 0);
}
// The same of groups along K; a ValueError for a negative size or a k_per_scale below 1.
DEEPGEMM_API std::int64_t packed_blocks(std::span<const std::int64_t> k_sizes,
                                        std::int64_t k_per_scale);

}  // namespace deepgemm
