#include "driver/memory.hpp"

#include <string>
#include <utility>

#include "core/text.hpp"

namespace deepgemm::driver {

DeviceBuffer::DeviceBuffer(std::int64_t bytes, int device) : device_(device) {
  if (bytes < 0) throw ValueError(join("DeviceBuffer: ", bytes, " bytes, must be 0 or more"));
  if (bytes == 0) return;
  ContextGuard guard(device);
  const CUresult result = api().MemAlloc(&address_, static_cast<std::size_t>(bytes));
  if (result != CUDA_SUCCESS) {
    address_ = 0;
    check(result, join("cuMemAlloc of ", bytes, " bytes on CUDA device ", device).c_str());
  }
  bytes_ = bytes;
}

DeviceBuffer::~DeviceBuffer() { release(); }

DeviceBuffer::DeviceBuffer(DeviceBuffer&& other) noexcept { *this = std::move(other); }

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  address_ = std::exchange(other.address_, 0);
  bytes_ = std::exchange(other.bytes_, 0);
  device_ = other.device_;
  return *this;
}

void DeviceBuffer::copy_from_host(const void* source, std::int64_t bytes, std::int64_t offset) {
  check_range(bytes, offset);
  if (bytes == 0) return;
  ContextGuard guard(device_);
  check(api().MemcpyHtoD(address_ + static_cast<CUdeviceptr>(offset), source,
                         static_cast<std::size_t>(bytes)),
        "cuMemcpyHtoD");
}

void DeviceBuffer::copy_to_host(void* target, std::int64_t bytes, std::int64_t offset) const {
  check_range(bytes, offset);
  if (bytes == 0) return;
  ContextGuard guard(device_);
  check(api().MemcpyDtoH(target, address_ + static_cast<CUdeviceptr>(offset),
                         static_cast<std::size_t>(bytes)),
        "cuMemcpyDtoH");
}

void DeviceBuffer::fill(unsigned char value) {
  if (bytes_ == 0) return;
  ContextGuard guard(device_);
  check(api().MemsetD8(address_, value, static_cast<std::size_t>(bytes_)), "cuMemsetD8");
}

void DeviceBuffer::check_range(std::int64_t bytes, std::int64_t offset) const {
  if (bytes >= 0 && offset >= 0 && offset <= bytes_ && bytes <= bytes_ - offset) return;
  throw ValueError(join("DeviceBuffer: bytes ", offset, " to ", offset, " + ", bytes,
                        " are outside its ", bytes_));
}

void DeviceBuffer::release() noexcept {
  if (address_ == 0) return;
  try {
    ContextGuard guard(device_);
    api().MemFree(address_);  // its failure (a dead context, process exit) leaves nothing to do
  } catch (...) {
  }
  address_ = 0;
  bytes_ = 0;
}

}  // namespace deepgemm::driver
