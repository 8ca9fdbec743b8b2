// Global memory: what the model's driver has allocated.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sm90 {

std::uint64_t allocate(std::size_t bytes);  // 0 if there is no memory
bool release(std::uint64_t address);
bool is_allocated(const void* address, std::size_t bytes);

}  // namespace sm90
