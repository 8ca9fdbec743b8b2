#include "core/text.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <limits>

using namespace deepgemm;

TEST_CASE("join takes every number") {
  CHECK(join("a", 1, 2.5) == "a12.5");
  CHECK(join(std::size_t{7}, -3L, 4LL, 5U, short{6}) == "7-3456");
  CHECK(join(true, ' ', std::string("x"), std::string_view("y")) == "true32xy");
  CHECK(join(std::numeric_limits<std::int64_t>::min()) == "-9223372036854775808");
  CHECK(join(std::numeric_limits<std::uint64_t>::max()) == "18446744073709551615");
}

TEST_CASE("real numbers are in their shortest form") {
  CHECK(to_text(0.1) == "0.1");
  CHECK(to_text(0.1F) == "0.1");
  CHECK(to_text(1e300) == "1e+300");
  CHECK(to_text(std::numeric_limits<double>::quiet_NaN()) == "nan");
}

TEST_CASE("complaint") {
  CHECK(complaint("a", "float64", "float32") == "a: found float64, need float32");
  CHECK(complaint("a", "1", "2", "why") == "a: found 1, need 2 (why)");
}

TEST_CASE("hex") {
  CHECK(hex(std::string_view("\x00\xff\x1a", 3)) == "00ff1a");
  CHECK(hex("").empty());
}
