#include "deepgemm/scaling.hpp"

#include <doctest/doctest.h>

using namespace deepgemm;

TEST_CASE("describe") {
  CHECK(describe(Granularity{1, 128}) == "(1, 128)");
  CHECK(describe(Granularity{1, Granularity::whole}) == "(1, whole)");
  CHECK(describe(per_tensor) == "(whole, whole)");
}

TEST_CASE("scale_extents rounds up") {
  auto extents = [](Granularity g, std::int64_t rows, std::int64_t k) {
    ScaleExtents e = scale_extents(g, rows, k);
    return std::pair(e.rows, e.k);
  };
  using Pair = std::pair<std::int64_t, std::int64_t>;
  CHECK(extents({1, 128}, 7, 129) == Pair(7, 2));
  CHECK(extents({128, 128}, 129, 128) == Pair(2, 1));
  CHECK(extents(per_tensor, 1000, 1000) == Pair(1, 1));
  CHECK(extents({1, Granularity::whole}, 5, 0) == Pair(5, 1));
  CHECK(extents({1, 128}, 5, 0) == Pair(5, 0));
  CHECK(extents({1, INT64_MAX}, INT64_MAX, 3) == Pair(INT64_MAX, 1));
}
