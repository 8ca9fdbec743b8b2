// Of src/device/ptx/memory.cuh what scheduler/lanes.cuh asks for.
#pragma once

namespace deepgemm::device::ptx {

inline void prefetch_l1(const void*) {}

}  // namespace deepgemm::device::ptx
