// The swizzle rule against its definition in words: 16-byte units permuted inside a span.
#include <doctest/doctest.h>

#include <set>

#include "common/swizzle.cuh"

using deepgemm::device::swizzled;
using deepgemm::device::u32;

TEST_CASE("128-byte swizzle: unit ^ (row % 8)") {
  for (u32 row = 0; row < 64; ++row) {
    for (u32 unit = 0; unit < 8; ++unit) {
      CHECK(swizzled(row * 128 + unit * 16, 128) == row * 128 + (unit ^ (row % 8)) * 16);
    }
  }
}

TEST_CASE("64-byte swizzle: unit ^ (row / 2 % 4)") {
  for (u32 row = 0; row < 64; ++row) {
    for (u32 unit = 0; unit < 4; ++unit) {
      CHECK(swizzled(row * 64 + unit * 16, 64) == row * 64 + (unit ^ (row / 2 % 4)) * 16);
    }
  }
}

TEST_CASE("every span permutes bytes and keeps the offset inside a 16-byte unit") {
  for (u32 span : {16u, 32u, 64u, 128u}) {
    std::set<u32> seen;
    for (u32 offset = 0; offset < 8192; ++offset) {
      CHECK(swizzled(offset, span) % 16 == offset % 16);
      CHECK(swizzled(offset, span) / span == offset / span);
      seen.insert(swizzled(offset, span));
    }
    CHECK(seen.size() == 8192);
  }
}
