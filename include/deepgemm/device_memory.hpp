// Plain device memory, for programs that have no framework to allocate it: examples, demo, tests.
#pragma once

#include <cstddef>

#include "deepgemm/error.hpp"
#include "deepgemm/gemm.hpp"

namespace deepgemm {

// `device` is a CUDA ordinal. All throw DriverError, but free_device_memory, which cannot fail in a
// way that its caller could act on. A size of 0 gives a null pointer.
DEEPGEMM_API void* allocate_device_memory(std::size_t bytes, int device);
DEEPGEMM_API void free_device_memory(void* memory, int device) noexcept;
// Synchronous with respect to the host, on the legacy default stream.
DEEPGEMM_API void copy_to_device(void* device_memory, const void* host, std::size_t bytes,
                                 int device);
DEEPGEMM_API void copy_to_host(void* host, const void* device_memory, std::size_t bytes,
                               int device);
DEEPGEMM_API void fill_device_memory(void* memory, unsigned char value, std::size_t bytes,
                                     int device);
// Waits for one stream (null: the legacy default stream).
DEEPGEMM_API void synchronize_stream(Stream stream, int device);
// Waits for all work of the device.
DEEPGEMM_API void synchronize_device(int device);

}  // namespace deepgemm
