#include "bindings/device_array.hpp"

#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#include "bindings/errors.hpp"
#include "deepgemm/device_memory.hpp"

namespace deepgemm::bindings {
namespace {

std::shared_ptr<void> allocate(std::size_t bytes, Device device) {
  if (device.kind == DeviceKind::cuda) {
    const int index = device.index;
    return {allocate_device_memory(bytes, index),
            [index](void* memory) { free_device_memory(memory, index); }};
  }
  // Why 64: JAX adopts host memory without a copy only if it is aligned to 64 bytes.
  const std::size_t rounded = (bytes + 63) / 64 * 64;
  void* memory = rounded == 0 ? nullptr : std::aligned_alloc(64, rounded);
  if (memory == nullptr && rounded != 0) throw std::bad_alloc();
  return {memory, [](void* pointer) { std::free(pointer); }};
}

std::string extents(const std::vector<std::int64_t>& values) {
  std::string text = "[";
  for (std::size_t i = 0; i < values.size(); ++i) {
    text.append(i == 0 ? "" : ", ").append(std::to_string(values[i]));
  }
  return text + "]";
}

void check_shape(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  bool legal = shape.size() <= static_cast<std::size_t>(max_rank);
  for (std::int64_t extent : shape) {
    legal = legal && extent >= 0 && !__builtin_mul_overflow(elements, extent, &elements);
  }
  // 2^48 bytes: more than any device holds, and far from overflowing once multiplied by 8.
  if (!legal || elements > (std::int64_t{1} << 48)) {
    throw ValueError(complaint("shape", extents(shape), "at most 4 extents >= 0 that fit memory"));
  }
}

}  // namespace

DeviceArray::DeviceArray(const std::vector<std::int64_t>& shape, DType dtype, Device device) {
  check_shape(shape);
  view_.dtype = dtype;
  view_.device = device;
  view_.rank = static_cast<std::int32_t>(shape.size());
  std::int64_t stride = 1;
  for (int i = view_.rank - 1; i >= 0; --i) {
    view_.shape[i] = shape[i];
    view_.strides[i] = stride;
    stride *= shape[i];
  }
  capacity_bytes_ = size_bytes();
  memory_ = allocate(capacity_bytes_, device);
  begin_ = static_cast<char*>(memory_.get());
  view_.data = begin_;
}

std::size_t DeviceArray::size_bytes() const {
  return static_cast<std::size_t>(view_.size() * size_in_bytes(view_.dtype));
}

bool is_row_major(const TensorView& view) {
  std::int64_t expected = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    if (view.shape[i] != 1 && view.strides[i] != expected) return view.size() == 0;
    expected *= view.shape[i];
  }
  return true;
}

void DeviceArray::copy_from(const void* host) {
  if (size_bytes() == 0) return;
  if (view_.device.kind == DeviceKind::cpu) {
    std::memcpy(view_.data, host, size_bytes());
  } else {
    copy_to_device(view_.data, host, size_bytes(), view_.device.index);
  }
}

void DeviceArray::copy_to(void* host) const {
  if (size_bytes() == 0) return;
  if (view_.device.kind == DeviceKind::cpu) {
    std::memcpy(host, view_.data, size_bytes());
  } else {
    copy_to_host(host, view_.data, size_bytes(), view_.device.index);
  }
}

void DeviceArray::fill(unsigned char byte) {
  if (!is_row_major(view_)) {
    throw ValueError(complaint("fill", describe(view_), "a contiguous array"));
  }
  if (size_bytes() == 0) return;
  if (view_.device.kind == DeviceKind::cpu) {
    std::memset(view_.data, byte, size_bytes());
  } else {
    fill_device_memory(view_.data, byte, size_bytes(), view_.device.index);
  }
}

void DeviceArray::synchronize() const {
  if (view_.device.kind == DeviceKind::cuda) synchronize_device(view_.device.index);
}

DeviceArray DeviceArray::strided(const std::vector<std::int64_t>& shape,
                                 const std::vector<std::int64_t>& strides,
                                 std::int64_t offset) const {
  check_shape(shape);
  if (strides.size() != shape.size()) {
    throw ValueError(complaint("strides", std::to_string(strides.size()) + " strides",
                               "as many as extents, " + std::to_string(shape.size())));
  }
  DeviceArray result = *this;
  result.view_.rank = static_cast<std::int32_t>(shape.size());
  for (std::size_t i = 0; i < shape.size(); ++i) {
    result.view_.shape[i] = shape[i];
    result.view_.strides[i] = strides[i];
  }
  std::int64_t bytes = 0;
  bool outside = __builtin_mul_overflow(offset, size_in_bytes(view_.dtype), &bytes) || bytes < 0 ||
                 bytes > static_cast<std::int64_t>(capacity_bytes_);
  result.view_.data = begin_ + (outside ? 0 : bytes);
  const ByteRange range = byte_range(result.view_);
  const auto begin = reinterpret_cast<std::uintptr_t>(begin_);
  outside |=
      result.view_.size() > 0 && (range.begin < begin || range.end > begin + capacity_bytes_);
  if (outside) {
    throw ValueError(complaint(
        "strided", describe(result.view_) + " at offset " + std::to_string(offset),
        "elements within the " + std::to_string(capacity_bytes_) + " bytes of the array"));
  }
  return result;
}

}  // namespace deepgemm::bindings
