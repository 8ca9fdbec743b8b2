#include "deepgemm/dtype.hpp"

#include <doctest/doctest.h>

#include "test_tensors.hpp"

using namespace deepgemm;

TEST_CASE("names and sizes go both ways") {
  for (int i = 0; i <= static_cast<int>(DType::int64); ++i) {
    auto dtype = static_cast<DType>(i);
    CHECK(dtype_from_name(name(dtype)) == dtype);
  }
  CHECK(name(DType::float8_e4m3fn) == "float8_e4m3fn");
  CHECK(name(DType::bfloat16) == "bfloat16");
  CHECK(size_in_bytes(DType::float8_e8m0fnu) == 1);
  CHECK(size_in_bytes(DType::float16) == 2);
  CHECK(size_in_bytes(DType::int32) == 4);
  CHECK(size_in_bytes(DType::float64) == 8);
}

TEST_CASE("an unknown name is a TypeError that lists the known ones") {
  std::string message = test::message_of<TypeError>([] { dtype_from_name("float8"); });
  CHECK(test::contains(message, "\"float8\""));
  CHECK(test::contains(message, "float8_e4m3fn, float8_e5m2"));
}

TEST_CASE("kinds") {
  static_assert(is_float8(DType::float8_e5m2) && !is_float8(DType::float8_e8m0fnu));
  static_assert(is_floating(DType::float16) && !is_floating(DType::uint8));
}
