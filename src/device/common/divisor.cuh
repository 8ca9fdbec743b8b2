// Division by a number that the host knows, without a division.
#pragma once

#include "common/types.cuh"

namespace deepgemm::device {

// n / d = 2 n * factor >> 32 >> shift, for 0 <= n < 2^31. Why: a quotient by a number in a register
// is some 25 instructions one after the other, and two stood in front of each tile's first load.
struct Divisor {
  u32 factor, shift;
};

// With shift = ceil(log2(d)), factor exceeds 2^(31 + shift) / d by at most 1, so that the quotient
// is too large by at most n / 2^(31 + shift) < 1 / d before it is cut. d >= 1.
DEEPGEMM_SHARED_CODE constexpr Divisor divisor_of(i32 d) {
  u32 shift = 0;
  while ((1ull << shift) < static_cast<u64>(d)) ++shift;
  return {static_cast<u32>((1ull << (31 + shift)) / static_cast<u64>(d) + 1), shift};
}

DEEPGEMM_SHARED_CODE constexpr i32 quotient(i32 n, const Divisor& d) {
  const u64 product = static_cast<u64>(2 * static_cast<u32>(n)) * d.factor;
  return static_cast<i32>(static_cast<u32>(product >> 32) >> d.shift);
}

}  // namespace deepgemm::device
