// deepgemm.DeviceArray: memory on a CUDA device (or the host), for programs without a framework.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file: text converts the same way everywhere

#include <cstddef>
#include <memory>
#include <vector>

#include "deepgemm/tensor.hpp"

namespace deepgemm::bindings {

namespace nb = nanobind;

// Without gaps, the last dimension fastest; empty arrays and extents of 1 may have any strides.
bool is_row_major(const TensorView& view);

// Shares its memory with the arrays made from it by strided().
class DeviceArray {
 public:
  // Uninitialised and row-major. Host memory (64-byte aligned) if device is the CPU.
  DeviceArray(const std::vector<std::int64_t>& shape, DType dtype, Device device);

  const TensorView& view() const { return view_; }
  const std::shared_ptr<void>& memory() const { return memory_; }
  std::size_t size_bytes() const;

  void copy_from(const void* host);
  void copy_to(void* host) const;
  void fill(unsigned char byte);
  void synchronize() const;
  // Another shape over the same memory; strides and offset in elements, checked against its bounds.
  DeviceArray strided(const std::vector<std::int64_t>& shape,
                      const std::vector<std::int64_t>& strides, std::int64_t offset) const;

 private:
  TensorView view_;
  std::shared_ptr<void> memory_;
  char* begin_ = nullptr;
  std::size_t capacity_bytes_ = 0;
};

}  // namespace deepgemm::bindings
