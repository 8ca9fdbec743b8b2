// WGMMA of the SM90 model against plain loops: every format, swizzle and number of columns, exact.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "machine/api.hpp"
#include "machine/machine.hpp"
#include "machine/memory.hpp"
#include "sm90_formats.hpp"

using namespace sm90;

namespace {

constexpr int rows = 64, steps = 2;  // instructions along K

struct Operands {
  Format format;
  int span;     // bytes of a row, and the swizzle
  int columns;  // of B
  int bytes() const { return format == Format::bf16 || format == Format::f16 ? 2 : 1; }
  int row_elements() const { return span / bytes(); }
  int depth() const { return std::min(steps * 32, span) / bytes(); }
};

int element(int row, int k) { return (row * 7 + k * 3 + row * k) % 5 - 2; }

// Rows first_row.. of a matrix, by all threads.
void fill(const Operands& o, Address start, int count, int first_row) {
  for (int i = thread_index(); i < count * o.row_elements(); i += cta_threads()) {
    const int row = i / o.row_elements(), k = i % o.row_elements();
    const auto line = start + static_cast<Address>(row * o.span);
    const auto byte = static_cast<Address>(k * o.bytes());
    const Address at = swizzle((line + byte) & ~Address{15}, o.span) + byte % 16;
    const std::uint32_t bits = encode(o.format, element(first_row + row, k));
    write_shared(at, &bits, o.bytes(), Where::current());
  }
}

std::uint64_t descriptor(const Operands& o, Address start) {
  const std::uint64_t kind = o.span == 128 ? 1 : o.span == 64 ? 2 : 3;
  return (start >> 4) | std::uint64_t{1} << 16 | static_cast<std::uint64_t>(8 * o.span / 16) << 32 |
         kind << 62;
}

// The sums of all threads, [row][column].
std::vector<float> multiply(const Operands& o) {
  std::vector<float> sums(static_cast<std::size_t>(rows * o.columns), NAN);
  Launch launch;
  launch.block = 128;
  launch.shared_bytes = 65536;
  launch.kernel = [&] {
    const Where here = Where::current();
    const Address a = dynamic_shared(), b = a + 16384;
    fill(o, a, rows, 0);
    fill(o, b, o.columns, rows);
    fence_async_proxy(here);
    sync_cta(here);
    wgmma_fence(here);
    const int instructions = o.depth() * o.bytes() / 32;
    for (int step = 0; step < instructions; ++step) {
      const auto along = static_cast<std::uint64_t>(step * 2);  // 32 bytes
      wgmma(o.columns, o.format, o.format, 0, step > 0, descriptor(o, a) + along,
            descriptor(o, b) + along, here);
    }
    wgmma_commit(here);
    wgmma_wait(0, here);
    const int lane = thread_index() % 32, warp = thread_index() / 32;
    for (int i = 0; i < o.columns / 2; ++i) {
      const int row = warp * 16 + lane / 4 + i / 2 % 2 * 8;
      const int column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      sums[static_cast<std::size_t>(row * o.columns + column)] = partial(0, i, here);
    }
  };
  Machine(launch, Schedule{}).run();
  return sums;
}

}  // namespace

TEST_CASE("the product of every format and swizzle, by the fragments that threads hold") {
  for (const Format format : {Format::e4m3, Format::e5m2, Format::bf16, Format::f16}) {
    for (const int span : {32, 64, 128}) {
      for (const int columns : {8, 96, 256}) {
        const Operands o{format, span, columns};
        CAPTURE(static_cast<int>(format));
        CAPTURE(span);
        CAPTURE(columns);
        const std::vector<float> sums = multiply(o);
        int wrong = 0;
        for (int row = 0; row < rows; ++row) {
          for (int column = 0; column < columns; ++column) {
            int want = 0;
            for (int k = 0; k < o.depth(); ++k) want += element(row, k) * element(rows + column, k);
            wrong +=
                sums[static_cast<std::size_t>(row * columns + column)] != static_cast<float>(want);
          }
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("operands of different sizes are refused") {
  Launch launch;
  launch.block = 128;
  launch.shared_bytes = 65536;
  launch.kernel = [] {
    wgmma_fence(Where::current());
    wgmma(8, Format::bf16, Format::e4m3, 0, false, std::uint64_t{1} << 62, std::uint64_t{1} << 62,
          Where::current());
  };
  CHECK_THROWS_AS(Machine(launch, Schedule{}).run(), Failure);
}
