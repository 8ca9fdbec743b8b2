#include "ops/checks.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/text.hpp"

namespace deepgemm::ops {
namespace {

bool is_integer(DType dtype) { return !is_floating(dtype) && dtype != DType::float8_e8m0fnu; }

std::string one_of(std::initializer_list<DType> allowed) {
  std::string text;
  std::size_t i = 0;
  for (DType dtype : allowed) {
    std::string_view separator = i == 0 ? "" : i + 1 == allowed.size() ? " or " : ", ";
    text += join(separator, name(dtype));
    ++i;
  }
  return text;
}

// Bytes of all elements, or -1 if that overflows.
std::int64_t bytes_or_overflow(const TensorView& view) {
  std::int64_t bytes = size_in_bytes(view.dtype);
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] == 0) return 0;
    if (__builtin_mul_overflow(bytes, view.shape[i], &bytes)) return -1;
  }
  return bytes;
}

// A view as intervals of `width` bytes that repeat every `pitch` bytes (0: there is only one).
struct Intervals {
  std::uintptr_t width = 0, pitch = 0;
};

Intervals intervals_of(const TensorView& view, ByteRange range) {
  int outer = -1, dimensions = 0;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] <= 1) continue;
    ++dimensions;
    if (outer < 0 || std::abs(view.strides[i]) > std::abs(view.strides[outer])) outer = i;
  }
  const std::uintptr_t span = range.end - range.begin;
  if (dimensions < 2) return {span, 0};
  const auto pitch =
      static_cast<std::uintptr_t>(std::abs(view.strides[outer]) * size_in_bytes(view.dtype));
  return {span - pitch * static_cast<std::uintptr_t>(view.shape[outer] - 1), pitch};
}

// Whether the two lie in different columns of one buffer: [q | k | v] of a fused projection.
bool in_different_columns(const TensorView& a, ByteRange x, const TensorView& b, ByteRange y) {
  if (x.end == UINTPTR_MAX || y.end == UINTPTR_MAX) return false;  // spans that overflow
  const Intervals p = intervals_of(a, x), q = intervals_of(b, y);
  const std::uintptr_t pitch = p.pitch != 0 ? p.pitch : q.pitch;
  if (pitch == 0 || (q.pitch != 0 && q.pitch != pitch)) return false;
  // Where b's intervals start within the pitch, if a's start at 0.
  const std::uintptr_t start = y.begin >= x.begin ? (y.begin - x.begin) % pitch
                                                  : (pitch - (x.begin - y.begin) % pitch) % pitch;
  return start >= p.width && q.width <= pitch - start;
}

}  // namespace

std::string shape_text(const TensorView& view) {
  const int rank = std::clamp(view.rank, 0, max_rank);  // which may be what is wrong with it
  return list_text(view.shape.data(), static_cast<std::size_t>(rank));
}

void check_dtype(const Operand& operand, std::initializer_list<DType> allowed,
                 std::string_view rule) {
  DType found = operand.view.dtype;
  bool takes_float8 = false;
  for (DType dtype : allowed) {
    if (found == dtype) return;
    takes_float8 |= is_float8(dtype);
  }
  std::string hint;
  if (takes_float8 && (found == DType::uint8 || found == DType::int8)) {
    hint = "bytes that hold float8 are viewed as deepgemm.view(x, \"float8_e4m3fn\")";
    rule = hint;
  } else if (rule.empty() && is_integer(found)) {
    rule = "integer arrays are not converted";
  }
  throw TypeError(complaint(operand.name, name(found), one_of(allowed), rule));
}

void check_rank(const Operand& operand, int rank, std::string_view shape_in_words) {
  if (operand.view.rank == rank) return;
  throw ValueError(complaint(operand.name,
                             join("shape ", shape_text(operand.view), ", rank ", operand.view.rank),
                             join("rank ", rank, ", ", shape_in_words)));
}

void check_extents(const Operand& operand) {
  const TensorView& view = operand.view;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] >= 0) continue;
    throw ValueError(
        complaint(operand.name, join("shape ", shape_text(view)), "extents of 0 or more"));
  }
  ByteRange range = byte_range(view);
  bool span_overflows = range.begin == 0 && range.end == UINTPTR_MAX;
  if (bytes_or_overflow(view) >= 0 && !span_overflows) return;
  throw ValueError(complaint(operand.name, describe(view), "fewer than 2^63 bytes",
                             "sizes and addresses are 64-bit"));
}

void check_shape(const Operand& operand, std::initializer_list<std::int64_t> shape,
                 std::string_view what) {
  const TensorView& view = operand.view;
  bool equal = static_cast<std::size_t>(view.rank) == shape.size();
  for (int i = 0; equal && i < view.rank; ++i) equal = view.shape[i] == shape.begin()[i];
  if (equal) return;
  throw ValueError(complaint(operand.name, join("shape ", shape_text(view)),
                             list_text(shape.begin(), shape.size()), what));
}

void check_device(const Operand& operand, const Operand& reference) {
  if (operand.view.device == reference.view.device) return;
  throw ValueError(complaint(operand.name, join("an array on ", describe(operand.view.device)),
                             describe(reference.view.device),
                             join("every array on one device; ", reference.name, " is on ",
                                  describe(reference.view.device))));
}

void check_output(const Operand& operand) {
  const TensorView& view = operand.view;
  if (view.read_only) {
    throw ValueError(complaint(operand.name, "a read-only array", "a writable one",
                               "results are written to it"));
  }
  if (view.size() == 0) return;
  // From the smallest step outwards, each stride must clear what lies inside it.
  std::array<std::pair<std::int64_t, std::int64_t>, max_rank> steps;  // |stride|, extent
  std::size_t count = 0;
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] > 1) steps[count++] = {std::abs(view.strides[i]), view.shape[i]};
  }
  for (std::size_t i = 1; i < count; ++i) {
    for (std::size_t j = i; j > 0 && steps[j] < steps[j - 1]; --j)
      std::swap(steps[j], steps[j - 1]);
  }
  std::int64_t inside = 0;  // offset of the last element of the dimensions so far
  for (std::size_t i = 0; i < count; ++i) {
    auto [stride, extent] = steps[i];
    if (stride <= inside) {
      throw ValueError(complaint(operand.name, describe(view), "strides that keep elements apart",
                                 stride == 0 ? "a stride of 0 writes one place many times"
                                             : "overlapping rows would overwrite each other"));
    }
    inside += stride * (extent - 1);
  }
}

void check_has_data(const Operand& operand) {
  if (operand.view.data != nullptr || operand.view.size() == 0) return;
  throw ValueError(complaint(operand.name, join(describe(operand.view), " without memory"),
                             "an array that holds data", "a fake or meta tensor has only a shape"));
}

bool overlaps(const TensorView& a, const TensorView& b) noexcept {
  if (a.data == nullptr || b.data == nullptr) return false;
  ByteRange x = byte_range(a), y = byte_range(b);
  if (x.begin == x.end || y.begin == y.end) return false;
  return x.begin < y.end && y.begin < x.end && !in_different_columns(a, x, b, y);
}

bool same_memory(const TensorView& a, const TensorView& b) noexcept {
  if (a.data != b.data || a.dtype != b.dtype || a.rank != b.rank) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (a.shape[i] != b.shape[i]) return false;
    if (a.shape[i] > 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

void check_no_overlap(const Operand& output, const Operand& other) {
  if (!overlaps(output.view, other.view)) return;
  throw ValueError(
      complaint(output.name, join("memory that overlaps ", other.name), "memory of its own",
                join(other.name, " is still being read while ", output.name, " is written")));
}

void check_sms(const CallOptions& options) {
  if (options.num_sms < 0) {
    throw ValueError(complaint("num_sms", to_text(options.num_sms), "0 (all) or more"));
  }
  if (options.policy == nullptr || options.policy->num_sms.value_or(0) >= 0) return;
  throw ValueError(complaint("policy.num_sms", to_text(*options.policy->num_sms),
                             "a number that is not negative"));
}

}  // namespace deepgemm::ops
