#include "machine/matrix.hpp"

#include <cstring>

#include "common/float_formats.cuh"
#include "machine/memory.hpp"

namespace sm90 {
namespace {

constexpr Address depth_bytes = 32;

Address line_of_row(const Matrix& matrix, int row) {
  return matrix.start + static_cast<Address>(row / 8) * matrix.eight_rows +
         static_cast<Address>(row % 8) * matrix.span;
}

// Where byte `k` of a row lies.
Address place_of(const Matrix& matrix, int row, Address k) {
  return swizzle((line_of_row(matrix, row) + k) & ~Address{15}, static_cast<int>(matrix.span)) +
         k % 16;
}

}  // namespace

int bytes_of(Format format) { return format == Format::bf16 || format == Format::f16 ? 2 : 1; }

float value_of(Format format, std::uint32_t bits) {
  using namespace deepgemm::device;
  switch (format) {
    case Format::e4m3:
      return e4m3_to_float(static_cast<u8>(bits));
    case Format::e5m2:
      return e5m2_to_float(static_cast<u8>(bits));
    case Format::bf16:
      return bfloat16_to_float(static_cast<u16>(bits));
    default:
      return half_to_float(static_cast<u16>(bits));
  }
}

int depth_of(Format format) { return static_cast<int>(depth_bytes) / bytes_of(format); }

Matrix matrix_of(std::uint64_t descriptor, const Where& where) {
  constexpr Address spans[] = {0, 128, 64, 32};
  const Address span = spans[descriptor >> 62];
  if (span == 0) {
    Machine::current().fail("only swizzled layouts are modelled in a matrix descriptor", where);
  }
  const Address start = static_cast<Address>(descriptor & 0x3FFF) << 4;
  // The row inside its group of eight, as the swizzle sees it.
  if ((start & (8 * span - 1) & ~Address{127}) != 0) {
    Machine::current().fail(
        "a matrix that does not start at a multiple of " + std::to_string(8 * span) + " bytes",
        where);
  }
  return {start, static_cast<Address>(descriptor >> 32 & 0x3FFF) << 4, span};
}

std::string forbids_rows(const Cta& cta, const Matrix& matrix, int count) {
  for (int r = 0; r < count; ++r) {
    for (Address k = 0; k < depth_bytes; k += 16) {
      const Address at = place_of(matrix, r, k);
      if (std::string problem = forbids_read(cta, at, 16, true); !problem.empty()) return problem;
    }
  }
  return {};
}

void hold_rows(Cta& cta, const Matrix& matrix, int count, int id, const std::string& what) {
  const Address whole = ~(matrix.span - 1);
  begin_read(cta, matrix.start & whole, (line_of_row(matrix, count - 1) & whole) + matrix.span, id,
             what);
}

std::vector<float> decode_rows(Cta& cta, const Matrix& matrix, int count, Format format) {
  const int depth = depth_of(format), bytes = bytes_of(format);
  std::vector<float> values;
  values.reserve(static_cast<std::size_t>(count) * static_cast<std::size_t>(depth));
  for (int r = 0; r < count; ++r) {
    for (int k = 0; k < depth; ++k) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, shared_bytes(cta, place_of(matrix, r, static_cast<Address>(k * bytes))),
                  static_cast<std::size_t>(bytes));
      values.push_back(value_of(format, bits));
    }
  }
  return values;
}

}  // namespace sm90
