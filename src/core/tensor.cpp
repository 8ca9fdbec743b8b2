#include "deepgemm/tensor.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/text.hpp"

namespace deepgemm {
namespace {

std::string list_of(const std::array<std::int64_t, max_rank>& values, int count) {
  return list_text(values.data(), static_cast<std::size_t>(std::clamp(count, 0, max_rank)));
}

}  // namespace

TensorView make_view(void* data, DType dtype, std::initializer_list<std::int64_t> shape,
                     Device device, bool read_only) {
  if (shape.size() > static_cast<std::size_t>(max_rank)) {
    throw ValueError(
        complaint("shape", join(shape.size(), " dimensions"), join("at most ", max_rank)));
  }
  TensorView view;
  view.data = data;
  view.dtype = dtype;
  view.read_only = read_only;
  view.device = device;
  view.rank = static_cast<std::int32_t>(shape.size());
  std::copy(shape.begin(), shape.end(), view.shape.begin());
  std::int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.strides[i] = stride;
    bool overflow =
        __builtin_mul_overflow(stride, std::max<std::int64_t>(view.shape[i], 1), &stride);
    if (overflow && i > 0) {
      throw ValueError(
          complaint("shape", list_of(view.shape, view.rank), "fewer than 2^63 elements"));
    }
  }
  return view;
}

TensorView transposed(const TensorView& view) {
  if (view.rank < 2) throw ValueError(complaint("view", describe(view), "rank 2 or more"));
  TensorView result = view;
  std::swap(result.shape[view.rank - 1], result.shape[view.rank - 2]);
  std::swap(result.strides[view.rank - 1], result.strides[view.rank - 2]);
  return result;
}

TensorView selected(const TensorView& view, std::int64_t index) {
  TensorView result = narrowed(view, 0, index, 1);
  --result.rank;
  std::copy(view.shape.begin() + 1, view.shape.end(), result.shape.begin());
  std::copy(view.strides.begin() + 1, view.strides.end(), result.strides.begin());
  return result;
}

TensorView narrowed(const TensorView& view, int dimension, std::int64_t first, std::int64_t count) {
  if (dimension < 0 || dimension >= view.rank || first < 0 || count < 0 ||
      first > view.shape[dimension] - count) {
    throw ValueError(complaint(
        "view", describe(view),
        join("a dimension ", dimension, " with items ", first, " to ", first, " + ", count)));
  }
  TensorView result = view;
  result.shape[dimension] = count;
  if (view.data != nullptr && count > 0) {
    result.data =
        static_cast<char*>(view.data) + first * view.strides[dimension] * size_in_bytes(view.dtype);
  }
  return result;
}

std::string describe(const TensorView& view) {
  return join(list_of(view.shape, view.rank), " ", name(view.dtype), " ", describe(view.device),
              ", strides ", list_of(view.strides, view.rank));
}

std::string describe(const Device& device) {
  if (device.kind == DeviceKind::cpu) return "cpu";
  return join("cuda:", device.index);
}

ByteRange byte_range(const TensorView& view) noexcept {
  auto data = reinterpret_cast<std::uintptr_t>(view.data);
  std::int64_t lowest = 0, highest = 0;  // element offsets
  bool overflow = false;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] == 0) return {data, data};
    std::int64_t last = 0;
    overflow |= __builtin_mul_overflow(view.shape[i] - 1, view.strides[i], &last);
    std::int64_t& end = last < 0 ? lowest : highest;
    overflow |= __builtin_add_overflow(end, last, &end);
  }
  std::int64_t bytes = size_in_bytes(view.dtype);
  std::int64_t begin = 0, end = 0;
  overflow |= __builtin_mul_overflow(lowest, bytes, &begin);
  overflow |= __builtin_add_overflow(highest, 1, &end);
  overflow |= __builtin_mul_overflow(end, bytes, &end);
  // A view that spans more than 2^63 bytes cannot be real; "everything" makes each overlap test
  // fail.
  if (overflow) return {0, std::numeric_limits<std::uintptr_t>::max()};
  return {data + static_cast<std::uintptr_t>(begin), data + static_cast<std::uintptr_t>(end)};
}

}  // namespace deepgemm
