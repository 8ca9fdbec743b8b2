#include "common/divisor.cuh"

#include <doctest/doctest.h>

#include <cstdint>
#include <random>

using namespace deepgemm;

TEST_CASE("a product and a shift divide as a division does") {
  std::mt19937 random(1);
  const auto check = [](std::int32_t n, std::int32_t d) {
    if (device::quotient(n, device::divisor_of(d)) != n / d) {
      CAPTURE(n);
      CAPTURE(d);
      FAIL_CHECK("not the quotient");
    }
  };
  const auto check_around = [&](std::int64_t n, std::int32_t d) {
    for (std::int64_t x = n - 1; x <= n + 1; ++x) {
      if (x >= 0 && x <= INT32_MAX) check(static_cast<std::int32_t>(x), d);
    }
  };
  const auto check_divisor = [&](std::int32_t d) {
    for (std::int64_t n : {std::int64_t{0}, std::int64_t{d}, std::int64_t{INT32_MAX}})
      check_around(n, d);
    check_around(INT32_MAX / d * std::int64_t{d}, d);
    for (int i = 0; i < 20; ++i) {
      const auto n = static_cast<std::int32_t>(random() >> 1);
      check_around(n, d);
      check_around(n / d * std::int64_t{d}, d);
    }
  };
  for (std::int32_t d = 1; d <= 4096; ++d) check_divisor(d);
  for (int bit = 0; bit < 31; ++bit) {
    for (std::int64_t d = (std::int64_t{1} << bit) - 1; d <= (std::int64_t{1} << bit) + 1; ++d) {
      if (d >= 1 && d <= INT32_MAX) check_divisor(static_cast<std::int32_t>(d));
    }
  }
  check_divisor(INT32_MAX);
  for (int i = 0; i < 20000; ++i) {
    check_divisor(static_cast<std::int32_t>(random() >> (1 + random() % 30) | 1));
  }
}
