// The swizzle rule of TMA and WGMMA, written once for host, device and tests.
#pragma once

#include "common/types.cuh"

namespace deepgemm::device {

// Where byte `offset` of an unswizzled tile lies: inside rows of `span` bytes (32, 64 or 128; 16 is
// no swizzle) the 16-byte units are permuted by bits 7.. of the address. Tiles start at a multiple
// of 1024 bytes.
DEEPGEMM_SHARED_CODE constexpr u32 swizzled(u32 offset, u32 span) {
  return offset ^ ((offset >> 3) & (span - 16));
}

}  // namespace deepgemm::device
