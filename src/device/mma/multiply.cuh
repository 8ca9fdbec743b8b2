// Shared-memory descriptors of WGMMA and the multiplication of one unit with one stage.
#pragma once

#include "common/gemm_config.cuh"
#include "ptx/wgmma.cuh"

namespace deepgemm::device {

// Matrix descriptor of a K-major tile whose rows are one 128-byte swizzle span (PTX
// ISA 9.7.15.5.1): bits 0-13 address / 16, 16-29 leading offset (ignored here), 32-45 stride
// between groups of 8 rows / 16, 62-63 the 128-byte swizzle.
DEEPGEMM_DEVICE u64 k_major_descriptor(u32 address) {
  constexpr u64 leading = 1;
  constexpr u64 eight_rows = 8 * 128 / 16;
  constexpr u64 swizzle_128 = 1;
  return static_cast<u64>((address & 0x3FFFF) >> 4) | leading << 16 | eight_rows << 32 |
         swizzle_128 << 62;
}

// Descriptors of stage 0 of the rows and columns that one warpgroup owns.
struct Operands {
  u64 a, b;
};

template <GemmConfig C>
DEEPGEMM_DEVICE Operands warpgroup_operands(u32 shared, int group) {
  constexpr SharedMap map = shared_map(C);
  const int row = group / C.consumers_n * unit_rows;
  const int column = group % C.consumers_n * C.group_columns();
  return {k_major_descriptor(shared + map.a + row * block_k),
          k_major_descriptor(shared + map.b + column * block_k)};
}

// Starts slot = A[64, 128] * B[columns, 128]^T on the tensor core and commits it.
template <int Columns, ElementType TypeA, ElementType TypeB, int Slot>
DEEPGEMM_DEVICE void multiply_block(u64 a, u64 b) {
  using Instruction = ptx::Wgmma<Columns, TypeA, TypeB, Slot>;
  constexpr int k_step = 32 / 16;  // 32 bytes of K, in descriptor units
  ptx::wgmma_fence();
  Instruction::template multiply<0>(a, b);
  Instruction::template multiply<1>(a + k_step, b + k_step);
  Instruction::template multiply<1>(a + 2 * k_step, b + 2 * k_step);
  Instruction::template multiply<1>(a + 3 * k_step, b + 3 * k_step);
  ptx::wgmma_commit();
}

// The rows of `unit` with the columns of the warpgroup, in stage `stage`.
template <GemmConfig C>
DEEPGEMM_DEVICE void multiply(const Operands& operands, int stage, int unit) {
  const u64 a = operands.a + static_cast<u64>(stage * (C.a_bytes() >> 4) +
                                              unit * (C.unit_pitch() * block_k >> 4));
  const u64 b = operands.b + static_cast<u64>(stage * (C.b_bytes() >> 4));
  multiply_block<C.group_columns(), C.a_type, C.b_type, 0>(a, b);
}

}  // namespace deepgemm::device
