// An operand that is many times L2.
#pragma once

#include <cstdint>

#include "device/common/elements.cuh"

namespace deepgemm::heuristics {

// Whether loading it with evict-first gains nothing. Why: TMA brings 256 bytes of a row where a box
// takes 128, and the other half is to be in L2 still when its turn comes; what such an operand
// pushes out, dirty lines among it, is little beside it. 1x129280x7168 in BF16: 443 -> 428 us;
// 1x24576x1536: 22.7 -> 26.8.
inline bool outgrows_l2(std::int64_t rows, std::int64_t k, device::ElementType type) {
  constexpr double bytes = 400e6;
  return static_cast<double>(rows) * static_cast<double>(k) * device::bytes_of(type) >= bytes;
}

}  // namespace deepgemm::heuristics
