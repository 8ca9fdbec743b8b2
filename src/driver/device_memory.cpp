// include/deepgemm/device_memory.hpp over the driver's function table.
#include "deepgemm/device_memory.hpp"

#include <cstdint>

#include "driver/driver.hpp"

namespace deepgemm {
namespace {

CUdeviceptr address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

}  // namespace

void* allocate_device_memory(std::size_t bytes, int device) {
  if (bytes == 0) return nullptr;
  const driver::Api& api = driver::api();
  const driver::ContextGuard context(device);
  CUdeviceptr memory = 0;
  driver::check(api.MemAlloc(&memory, bytes), "cuMemAlloc");
  return reinterpret_cast<void*>(memory);
}

void free_device_memory(void* memory, int device) noexcept {
  if (memory == nullptr) return;
  try {
    const driver::ContextGuard context(device);
    driver::api().MemFree(address(memory));
  } catch (const std::exception&) {
    // Why: runs in destructors, often while the process (and the driver) is shutting down.
  }
}

void copy_to_device(void* device_memory, const void* host, std::size_t bytes, int device) {
  if (bytes == 0) return;
  const driver::ContextGuard context(device);
  driver::check(driver::api().MemcpyHtoD(address(device_memory), host, bytes), "cuMemcpyHtoD");
}

void copy_to_host(void* host, const void* device_memory, std::size_t bytes, int device) {
  if (bytes == 0) return;
  const driver::ContextGuard context(device);
  driver::check(driver::api().MemcpyDtoH(host, address(device_memory), bytes), "cuMemcpyDtoH");
}

void fill_device_memory(void* memory, unsigned char value, std::size_t bytes, int device) {
  if (bytes == 0) return;
  const driver::ContextGuard context(device);
  driver::check(driver::api().MemsetD8(address(memory), value, bytes), "cuMemsetD8");
}

void synchronize_stream(Stream stream, int device) {
  const driver::ContextGuard context(device);
  driver::check(driver::api().StreamSynchronize(stream), "cuStreamSynchronize");
}

void synchronize_device(int device) {
  const driver::ContextGuard context(device);
  driver::check(driver::api().CtxSynchronize(), "cuCtxSynchronize");
}

}  // namespace deepgemm
