#include "deepgemm/scaling.hpp"

#include "core/math.hpp"
#include "core/text.hpp"

namespace deepgemm {
namespace {

std::string extent_text(std::int64_t extent) {
  return extent == Granularity::whole ? std::string("whole") : to_text(extent);
}

// Blocks of `block` in `extent`.
std::int64_t blocks(std::int64_t extent, std::int64_t block) {
  return block == Granularity::whole ? 1 : ceil_div(extent, block);
}

}  // namespace

std::string describe(const Granularity& granularity) {
  return join("(", extent_text(granularity.rows), ", ", extent_text(granularity.k), ")");
}

Granularity canonical(const Granularity& granularity, std::int64_t rows, std::int64_t k) noexcept {
  auto widened = [](std::int64_t block, std::int64_t extent) {
    return block > 128 && extent > 0 && block >= extent ? Granularity::whole : block;
  };
  return {widened(granularity.rows, rows), widened(granularity.k, k)};
}

ScaleExtents scale_extents(const Granularity& granularity, std::int64_t rows,
                           std::int64_t k) noexcept {
  return {blocks(rows, granularity.rows), blocks(k, granularity.k)};
}

}  // namespace deepgemm
