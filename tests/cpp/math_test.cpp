#include "core/math.hpp"

#include <doctest/doctest.h>

#include "test_tensors.hpp"

using namespace deepgemm;

TEST_CASE("products stop at the largest number") {
  CHECK(product_or_max({3, 4, 5}) == 60);
  CHECK(product_or_max({INT64_MAX, 2}) == INT64_MAX);
  CHECK(product_or_max({INT64_MAX, 2, 0}) == 0);
  CHECK(product_or_max({std::int64_t{1} << 32, std::int64_t{1} << 32}) == INT64_MAX);
}

TEST_CASE("buffers whose bytes do not fit 64 bits are refused") {
  CHECK(checked_elements<float>("b", {64, 128}) == 64 * 128);
  CHECK(checked_elements<float>("b", {}) == 1);
  const std::string message = test::message_of<ValueError>(
      [] { checked_elements<float>("b", {1, std::int64_t{1} << 58, 64}); });
  CHECK(test::contains(message, "b: found a buffer of 1 x 288230376151711744 x 64 elements"));
  CHECK_THROWS_AS(checked_elements<double>("b", {std::int64_t{1} << 60}), ValueError);
}
