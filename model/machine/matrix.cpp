#include "machine/matrix.hpp"

#include <algorithm>
#include <cstring>

#include "common/float_formats.cuh"
#include "machine/memory.hpp"

namespace sm90 {
namespace {

constexpr Address depth_bytes = 32;

// Where 16 bytes of a line lie.
Address place_of(const Matrix& matrix, int line, Address byte) {
  const auto l = static_cast<Address>(line);
  return swizzle(matrix.start + l / 8 * matrix.eight_lines + l % 8 * matrix.span +
                     byte / matrix.span * matrix.next_span + byte % matrix.span,
                 matrix.span);
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

Matrix matrix_of(const Operand& operand, int rows, const Where& where) {
  constexpr Address spans[] = {0, 128, 64, 32};
  const auto field = [&operand](int bit) {
    return static_cast<Address>(operand.descriptor >> bit & 0x3FFF) << 4;
  };
  const Address span = spans[operand.descriptor >> 62], start = field(0);
  const int bytes = bytes_of(operand.format), depth = depth_of(operand.format);
  Machine& machine = Machine::current();
  if (span == 0) machine.fail("only swizzled layouts are modelled in a matrix descriptor", where);
  // The row inside its group of eight, as the swizzle sees it.
  if ((start & (8 * span - 1) & ~Address{127}) != 0) {
    machine.fail(
        "a matrix that does not start at a multiple of " + std::to_string(8 * span) + " bytes",
        where);
  }
  const int lines = operand.mn_major ? depth : rows;
  const int line_bytes = operand.mn_major ? rows * bytes : static_cast<int>(depth_bytes);
  if (start % span + std::min(static_cast<Address>(line_bytes), span) > span) {
    machine.fail("a matrix whose lines run over the end of their " + std::to_string(span) +
                     " bytes of the swizzle",
                 where);
  }
  return {start, span, field(32), field(16), lines, line_bytes, operand.format, operand.mn_major};
}

std::string forbids_matrix(const Cta& cta, const Matrix& matrix) {
  const auto bytes = static_cast<Address>(matrix.line_bytes);
  for (int line = 0; line < matrix.lines; ++line) {
    for (Address byte = 0; byte < bytes; byte += 16) {
      const Address at = place_of(matrix, line, byte);
      // Rows that a tile does not have are not loaded: NaN, lest they matter.
      if (std::string problem = forbids_read(cta, at, 16, true, true); !problem.empty())
        return problem;
    }
  }
  return {};
}

void hold_matrix(Cta& cta, const Matrix& matrix, int id, const std::string& what) {
  const Address whole = ~(matrix.span - 1), eight = 8 * matrix.span;
  // Groups of eight lines that follow each other are one region.
  const auto lines = static_cast<Address>(matrix.lines);
  const Address together = matrix.eight_lines == eight ? lines : 8;
  const auto bytes = static_cast<Address>(matrix.line_bytes);
  for (Address byte = 0; byte < bytes; byte += matrix.span) {
    for (Address line = 0; line < lines; line += together) {
      const Address begin = (matrix.start & whole) + byte / matrix.span * matrix.next_span +
                            line / 8 * matrix.eight_lines;
      begin_read(cta, begin, begin + together * matrix.span, id, what);
    }
  }
}

std::vector<float> decode_matrix(Cta& cta, const Matrix& matrix) {
  const int bytes = bytes_of(matrix.format), elements = matrix.line_bytes / bytes;
  std::vector<float> values(static_cast<std::size_t>(matrix.lines * elements));
  for (int line = 0; line < matrix.lines; ++line) {
    for (int first = 0; first < elements; first += 16 / bytes) {
      const Address place = place_of(matrix, line, static_cast<Address>(first * bytes));
      const std::uint8_t* unit = shared_bytes(cta, place);
      for (int i = first; i < first + 16 / bytes; ++i, unit += bytes) {
        std::uint16_t bits = 0;
        std::memcpy(&bits, unit, static_cast<std::size_t>(bytes));
        const int at = matrix.mn_major ? i * matrix.lines + line : line * elements + i;
        values[static_cast<std::size_t>(at)] = value_of(matrix.format, bits);
      }
    }
  }
  return values;
}

}  // namespace sm90
