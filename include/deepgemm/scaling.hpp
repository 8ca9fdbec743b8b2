// Scale factors: multipliers that turn stored values into real ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "deepgemm/tensor.hpp"

namespace deepgemm {

// What one scale factor covers: `rows` rows (of A; of B read as [N, K]) by `k` elements of K.
// `whole` means the whole extent, so that a granularity does not depend on the shape:
// per-tensor = {whole, whole}, per-row = {1, whole}, blocks = {1, 128}, {128, 128}, MX = {1, 32}.
struct Granularity {
  static constexpr std::int64_t whole = 0;
  std::int64_t rows = whole;
  std::int64_t k = whole;
  friend bool operator==(const Granularity&, const Granularity&) = default;
};

inline constexpr Granularity per_tensor{Granularity::whole, Granularity::whole};

// "(1, 128)", "(1, whole)".
DEEPGEMM_API std::string describe(const Granularity& granularity);
// Extents of sf for an operand of rows x k: {ceil(rows / g.rows), ceil(k / g.k)}.
struct ScaleExtents {
  std::int64_t rows = 0, k = 0;
};
DEEPGEMM_API ScaleExtents scale_extents(const Granularity& granularity, std::int64_t rows,
                                        std::int64_t k) noexcept;

// (1, 7168) of a K of 7168 is (1, whole): one form, so that equal problems compare equal. 128 and
// less stay, because kernels know them by number.
DEEPGEMM_API Granularity canonical(const Granularity& granularity, std::int64_t rows,
                                   std::int64_t k) noexcept;
// Rows of the fast layout of FP32 factors, whose rows are contiguous: padded to 16 bytes for TMA.
constexpr std::int64_t fast_scale_pitch(std::int64_t rows) noexcept { return (rows + 3) / 4 * 4; }

// Values with their scale factors. No sf: unscaled (every factor is 1).
// sf is float32 or float8_e8m0fnu, on the values' device, of shape scale_extents(), any strides;
// a per-tensor sf may also have rank 0 or one element. It lies as its values do: where the layout
// of a product has them as [K, rows], sf is [k, rows] too, as quantising that memory gives it.
// granularity is (rows, k) of the operand in every layout. Unset: inferred from the shape of sf, an
// error if two readings fit.
struct ScaledView {
  TensorView values;
  std::optional<TensorView> sf;
  std::optional<Granularity> granularity;
};

}  // namespace deepgemm
