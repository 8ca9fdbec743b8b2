#include "deepgemm/dtype.hpp"

#include <array>
#include <string>

#include "core/text.hpp"

namespace deepgemm {
namespace {

struct Row {
  std::string_view name;
  std::int64_t bytes;
};

// In the order of DType.
constexpr std::array<Row, 13> rows = {{
    {"float8_e4m3fn", 1},
    {"float8_e5m2", 1},
    {"float8_e8m0fnu", 1},
    {"bfloat16", 2},
    {"float16", 2},
    {"float32", 4},
    {"float64", 8},
    {"uint8", 1},
    {"int8", 1},
    {"uint16", 2},
    {"int16", 2},
    {"int32", 4},
    {"int64", 8},
}};
static_assert(static_cast<std::size_t>(DType::int64) + 1 == rows.size());

}  // namespace

std::int64_t size_in_bytes(DType dtype) noexcept {
  return rows[static_cast<std::size_t>(dtype)].bytes;
}

std::string_view name(DType dtype) noexcept { return rows[static_cast<std::size_t>(dtype)].name; }

DType dtype_from_name(std::string_view text) {
  std::string known;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].name == text) return static_cast<DType>(i);
    known += join(i == 0 ? "" : ", ", rows[i].name);
  }
  throw TypeError(complaint("dtype", join("\"", text, "\""), join("one of ", known)));
}

}  // namespace deepgemm
