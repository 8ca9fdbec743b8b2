// A K-major operand of WGMMA in shared memory, as its matrix descriptor describes it.
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

// Rows of `span` bytes in that swizzle, groups of eight of them `eight_rows` apart.
struct Matrix {
  Address start, eight_rows, span;
};

Matrix matrix_of(std::uint64_t descriptor, const Where& where);

// Why the first 32 bytes of `count` rows may not be read now, or empty.
std::string forbids_rows(const Cta& cta, const Matrix& matrix, int count);
// Whole rows are held until end_access(id), since nothing else lies in them.
void hold_rows(Cta& cta, const Matrix& matrix, int count, int id, const std::string& what);
// Those bytes as numbers, row by row.
std::vector<float> decode_rows(Cta& cta, const Matrix& matrix, int count, Format format);

}  // namespace sm90
