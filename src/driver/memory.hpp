// Device memory that is freed with its owner.
#pragma once

#include <cstdint>

#include "driver/driver.hpp"

namespace deepgemm::driver {

// cuMemAlloc'd bytes of one device. Copies and fills go through the legacy default stream; copies
// have finished when they return, so work queued on blocking streams before them is seen.
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  // Zero bytes allocate nothing. Throws DriverError.
  DeviceBuffer(std::int64_t bytes, int device);
  ~DeviceBuffer();
  DeviceBuffer(DeviceBuffer&& other) noexcept;
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept;
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* data() const noexcept { return reinterpret_cast<void*>(address_); }
  std::int64_t bytes() const noexcept { return bytes_; }
  int device() const noexcept { return device_; }

  // Throw ValueError if offset + bytes exceeds the buffer.
  void copy_from_host(const void* source, std::int64_t bytes, std::int64_t offset = 0);
  void copy_to_host(void* target, std::int64_t bytes, std::int64_t offset = 0) const;
  void fill(unsigned char value);

 private:
  void check_range(std::int64_t bytes, std::int64_t offset) const;
  void release() noexcept;

  CUdeviceptr address_ = 0;
  std::int64_t bytes_ = 0;
  int device_ = 0;
};

}  // namespace deepgemm::driver
