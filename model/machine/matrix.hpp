// An operand of WGMMA in shared memory, as its matrix descriptor describes it.
#pragma once

#include <string>
#include <vector>

#include "machine/api.hpp"
#include "machine/machine.hpp"

namespace sm90 {

int bytes_of(Format format);
// Elements along K of one instruction: 32 bytes.
int depth_of(Format format);
// An element as a number, from its low bits.
float value_of(Format format, std::uint32_t bits);

// Lines of contiguous elements: K-major a line is one row (column of B) along K; MN-major it is one
// k along the rows. A line fills `span` bytes of the swizzle, then goes on `next_span` bytes after
// their beginning; groups of eight lines are `eight_lines` apart.
struct Matrix {
  Address start, span, eight_lines, next_span;
  int lines, line_bytes;
  Format format;
  bool mn_major;
};

// The matrix of the first `rows` rows (columns of B).
Matrix matrix_of(const Operand& operand, int rows, const Where& where);

// Why what an instruction reads may not be read now, or empty.
std::string forbids_matrix(const Cta& cta, const Matrix& matrix);
// Whole spans are held until end_access(id), since nothing else lies in them.
void hold_matrix(Cta& cta, const Matrix& matrix, int id, const std::string& what);
// Its elements as numbers, row by row: [row][k].
std::vector<float> decode_matrix(Cta& cta, const Matrix& matrix);

}  // namespace sm90
