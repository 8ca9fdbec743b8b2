// How soon lines that TMA brings leave L2.
#pragma once

#include "common/types.cuh"

namespace deepgemm::device {

// What createpolicy.fractional.L2::evict_{normal,first,last}.b64 with fraction 1.0 makes (PTX ISA
// 9.7.9.21), as constants.
enum class L2Policy : u64 {
  evict_normal = 0x1000000000000000,
  evict_first = 0x12F0000000000000,
  evict_last = 0x14F0000000000000,
};

}  // namespace deepgemm::device
