// TensorView: a non-owning, strided view of memory on the CPU or on one CUDA device.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>

#include "deepgemm/dtype.hpp"

namespace deepgemm {

enum class DeviceKind : std::uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::int32_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

inline constexpr int max_rank = 4;

// Strides are in elements. `data` already points at element 0.
struct TensorView {
  void* data = nullptr;
  DType dtype = DType::float32;
  bool read_only = false;
  Device device;
  std::int32_t rank = 0;
  std::array<std::int64_t, max_rank> shape{};
  std::array<std::int64_t, max_rank> strides{};

  // Number of elements.
  std::int64_t size() const noexcept {
    std::int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= shape[i];
    return product;
  }
};

// A row-major view of `data`.
DEEPGEMM_API TensorView make_view(void* data, DType dtype,
                                  std::initializer_list<std::int64_t> shape, Device device = {},
                                  bool read_only = false);
// The last two dimensions swapped; no data moves. Needs rank >= 2.
DEEPGEMM_API TensorView transposed(const TensorView& view);
// view[index]: one item of the first dimension, which is dropped. Needs rank >= 1 and an index that
// exists; no data moves.
DEEPGEMM_API TensorView selected(const TensorView& view, std::int64_t index);
// `count` items of a dimension from `first` on, all of which must exist; no data moves.
DEEPGEMM_API TensorView narrowed(const TensorView& view, int dimension, std::int64_t first,
                                 std::int64_t count);
// "[4096, 7168] bfloat16 cuda:0, strides [7168, 1]": the form used in error messages.
DEEPGEMM_API std::string describe(const TensorView& view);
DEEPGEMM_API std::string describe(const Device& device);
// First and one-past-last byte that the view can touch (negative strides included).
struct ByteRange {
  std::uintptr_t begin = 0, end = 0;
};
DEEPGEMM_API ByteRange byte_range(const TensorView& view) noexcept;

}  // namespace deepgemm
