// The rules of cuTensorMapEncodeTiled, in one place. The driver answers only INVALID_VALUE, so each
// rule is checked here first and named. Dimensions are in the view's order, outermost first; the
// driver counts from the innermost.
#include <cuda.h>

#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "core/math.hpp"
#include "core/text.hpp"
#include "deepgemm/error.hpp"
#include "deepgemm/tma.hpp"
#include "driver/driver.hpp"

namespace deepgemm::tma {
namespace {

static_assert(sizeof(Descriptor) == sizeof(CUtensorMap));

constexpr std::int64_t alignment_bytes = 16;
constexpr std::int64_t extent_limit = std::int64_t{1} << 32;
constexpr std::int64_t pitch_limit_bytes = std::int64_t{1} << 40;
constexpr std::int64_t box_limit = 256;
// Why: not documented; an H200 (driver 580) refuses boxes above an SM's whole shared memory.
constexpr std::int64_t box_limit_bytes = 228 * 1024;

struct Broken {
  std::string what;   // "row pitch"
  std::string found;  // "130 bytes"
  std::string need;   // "a multiple of 16"
};
using Verdict = std::optional<Broken>;

std::string bytes_text(std::int64_t bytes) { return join(bytes, " bytes"); }

std::string pitch_name(const TensorView& view, int dimension) {
  if (dimension == view.rank - 2) return "row pitch";
  return join("pitch of dimension ", dimension);
}

std::int64_t swizzle_span_bytes(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::b32:
      return 32;
    case Swizzle::b64:
      return 64;
    case Swizzle::b128:
      return 128;
    case Swizzle::none:
      break;
  }
  return 0;
}

Verdict check_extents(const TensorView& view) {
  if (view.rank < 1 || view.rank > max_rank) {
    return Broken{"rank", to_text(view.rank), join("1 to ", max_rank)};
  }
  for (int i = 0; i < view.rank; ++i) {
    if (view.shape[i] < 1 || view.shape[i] > extent_limit) {
      return Broken{join("extent of dimension ", i), to_text(view.shape[i]), "1 to 2^32"};
    }
  }
  return std::nullopt;
}

// The stride of a dimension of extent 1 means nothing and may be anything. Pitches of 0 (a
// broadcast dimension), below the row's length, or smaller than those further in are legal (tried
// on an H200).
Verdict check_strides(const TensorView& view) {
  const int last = view.rank - 1;
  if (view.shape[last] > 1 && view.strides[last] != 1) {
    return Broken{"stride of the last dimension", to_text(view.strides[last]), "1 (contiguous)"};
  }
  const std::int64_t element_bytes = size_in_bytes(view.dtype);
  for (int i = last - 1; i >= 0; --i) {
    if (view.shape[i] == 1) continue;
    const std::int64_t stride = view.strides[i];
    if (stride < 0 || stride >= pitch_limit_bytes / element_bytes) {
      return Broken{pitch_name(view, i), join(stride, " elements"), "from 0 to below 2^40 bytes"};
    }
    if (stride * element_bytes % alignment_bytes != 0) {
      return Broken{pitch_name(view, i), bytes_text(stride * element_bytes), "a multiple of 16"};
    }
  }
  return std::nullopt;
}

Verdict check_address(const TensorView& view) {
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  const auto past = static_cast<std::int64_t>(address % alignment_bytes);
  if (past == 0) return std::nullopt;
  return Broken{"address", join(past, " bytes past a multiple of 16"), "16-byte aligned"};
}

Verdict check_box(const TensorView& view, const Tile& tile, Swizzle swizzle) {
  for (int i = 0; i < view.rank; ++i) {
    if (tile[i] < 1 || tile[i] > box_limit) {
      return Broken{join("tile extent of dimension ", i), to_text(tile[i]), "1 to 256"};
    }
  }
  const std::int64_t inner_bytes = tile[view.rank - 1] * size_in_bytes(view.dtype);
  std::int64_t total_bytes = inner_bytes;  // at most 8 * 256^4
  for (int i = 0; i < view.rank - 1; ++i) total_bytes *= tile[i];
  if (total_bytes > box_limit_bytes) {
    return Broken{"tile", bytes_text(total_bytes),
                  join("at most an SM's shared memory of ", bytes_text(box_limit_bytes))};
  }
  if (inner_bytes % alignment_bytes != 0) {
    return Broken{"tile row", bytes_text(inner_bytes), "a multiple of 16"};
  }
  const std::int64_t span = swizzle_span_bytes(swizzle);
  if (span != 0 && inner_bytes > span) {
    return Broken{"tile row", bytes_text(inner_bytes),
                  join("at most the swizzle's ", bytes_text(span))};
  }
  return std::nullopt;
}

Verdict first_broken(const TensorView& view, const Tile& tile, Swizzle swizzle) {
  if (Verdict verdict = check_extents(view)) return verdict;
  if (Verdict verdict = check_strides(view)) return verdict;
  if (Verdict verdict = check_address(view)) return verdict;
  return check_box(view, tile, swizzle);
}

// TMA only moves bits, except that a reduction or an out-of-bounds NaN fill would need the type.
CUtensorMapDataType data_type(DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case DType::float16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case DType::float32:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    case DType::float64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case DType::uint16:
    case DType::int16:
      return CU_TENSOR_MAP_DATA_TYPE_UINT16;
    case DType::int32:
      return CU_TENSOR_MAP_DATA_TYPE_INT32;
    case DType::int64:
      return CU_TENSOR_MAP_DATA_TYPE_INT64;
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
    case DType::float8_e8m0fnu:
    case DType::uint8:
    case DType::int8:
      break;
  }
  return CU_TENSOR_MAP_DATA_TYPE_UINT8;  // there is no FP8 type
}

CUtensorMapSwizzle swizzle_code(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::b32:
      return CU_TENSOR_MAP_SWIZZLE_32B;
    case Swizzle::b64:
      return CU_TENSOR_MAP_SWIZZLE_64B;
    case Swizzle::b128:
      return CU_TENSOR_MAP_SWIZZLE_128B;
    case Swizzle::none:
      break;
  }
  return CU_TENSOR_MAP_SWIZZLE_NONE;
}

CUtensorMapL2promotion promotion_code(L2Promotion promotion) {
  switch (promotion) {
    case L2Promotion::b64:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_64B;
    case L2Promotion::b128:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
    case L2Promotion::b256:
      return CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
    case L2Promotion::none:
      break;
  }
  return CU_TENSOR_MAP_L2_PROMOTION_NONE;
}

std::int64_t promotion_bytes(L2Promotion promotion) {
  return promotion == L2Promotion::none ? 0 : 32 << static_cast<int>(promotion);
}

std::string_view type_name(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return "bfloat16";
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
      return "float16";
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
      return "float32";
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return "float64";
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
      return "uint16";
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
      return "int32";
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
      return "int64";
    default:
      return "uint8";
  }
}

// The arguments of cuTensorMapEncodeTiled, innermost dimension first.
struct Geometry {
  std::array<cuuint64_t, max_rank> extents{};
  std::array<cuuint64_t, max_rank> pitches_bytes{};  // of all dimensions but the innermost
  std::array<cuuint32_t, max_rank> box{};
  std::array<cuuint32_t, max_rank> element_strides{};
};

Geometry geometry(const TensorView& view, const Tile& tile) {
  const std::int64_t element_bytes = size_in_bytes(view.dtype);
  const int last = view.rank - 1;
  Geometry result;
  // What a dimension of extent 1 gets: a legal pitch that is never multiplied by anything but 0.
  std::int64_t pitch = align_up(view.shape[last] * element_bytes, alignment_bytes);
  for (int i = 0; i <= last; ++i) {
    const int from = last - i;
    result.extents[i] = static_cast<cuuint64_t>(view.shape[from]);
    result.box[i] = static_cast<cuuint32_t>(tile[from]);
    result.element_strides[i] = 1;
    if (i == 0) continue;
    if (view.shape[from] > 1) pitch = view.strides[from] * element_bytes;
    result.pitches_bytes[i - 1] = static_cast<cuuint64_t>(pitch);
  }
  return result;
}

}  // namespace

std::string broken_rule(const TensorView& view, const Tile& tile, Swizzle swizzle) {
  const Verdict broken = first_broken(view, tile, swizzle);
  if (!broken) return {};
  return join(broken->what, " is ", broken->found, ", must be ", broken->need);
}

Descriptor make_descriptor(const TensorView& view, const Tile& tile, Swizzle swizzle,
                           L2Promotion promotion, const char* operand) {
  if (const Verdict broken = first_broken(view, tile, swizzle)) {
    throw ValueError(complaint(operand, join(broken->what, " of ", broken->found), broken->need,
                               join("TMA of ", describe(view))));
  }
  const Geometry shape = geometry(view, tile);
  CUtensorMap map;
  driver::check(
      driver::api().TensorMapEncodeTiled(
          &map, data_type(view.dtype), static_cast<cuuint32_t>(view.rank), view.data,
          shape.extents.data(), shape.pitches_bytes.data(), shape.box.data(),
          shape.element_strides.data(), CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle_code(swizzle),
          promotion_code(promotion), CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
      "cuTensorMapEncodeTiled");
  Descriptor descriptor;
  std::memcpy(descriptor.opaque.data(), &map, sizeof(map));
  return descriptor;
}

std::string describe(const TensorView& view, const Tile& tile, Swizzle swizzle,
                     L2Promotion promotion) {
  const Geometry shape = geometry(view, tile);
  const auto product = [&](const auto& numbers) {
    std::string text;
    for (int i = 0; i < view.rank; ++i) text += join(i == 0 ? "" : " x ", numbers[i]);
    return text;
  };
  std::string pitches;
  for (int i = 0; i + 1 < view.rank; ++i)
    pitches += join(i == 0 ? "" : " and ", shape.pitches_bytes[i]);
  const std::int64_t span = swizzle_span_bytes(swizzle), promoted = promotion_bytes(promotion);
  return join(
      type_name(data_type(view.dtype)), ", ", product(shape.extents), ", pitch ", pitches,
      " bytes, box ", product(shape.box), ", ",
      span == 0 ? std::string("no swizzle") : join("swizzle ", span, " bytes"), ", ",
      promoted == 0 ? std::string("no L2 promotion") : join("L2 promotion ", promoted, " bytes"));
}

}  // namespace deepgemm::tma
