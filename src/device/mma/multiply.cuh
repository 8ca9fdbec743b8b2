// Shared-memory descriptors of WGMMA and the multiplication of one unit with one stage.
#pragma once

#include "common/gemm_config.cuh"
#include "ptx/wgmma.cuh"

namespace deepgemm::device {

// Matrix descriptor of a tile of 128-byte swizzle spans, of which 8 are an atom (PTX
// ISA 9.7.15.5.1): bits 0-13 address / 16, 16-29 leading offset / 16, 32-45 stride between atoms
// / 16, 62-63 the 128-byte swizzle.
DEEPGEMM_DEVICE u64 swizzled_descriptor(u32 address, u64 leading) {
  constexpr u64 next_atom = 8 * 128 / 16;
  constexpr u64 swizzle_128 = 1;
  return static_cast<u64>((address & 0x3FFFF) >> 4) | leading << 16 | next_atom << 32 |
         swizzle_128 << 62;
}

// K-major: rows are the spans, and atoms follow each other along the rows; no leading offset
// counts.
DEEPGEMM_DEVICE u64 k_major_descriptor(u32 address) { return swizzled_descriptor(address, 1); }

// MN-major, 16-bit elements: a span holds 64 rows at one k, and atoms follow each other along K;
// leading offset: from 64 rows to the next 64.
DEEPGEMM_DEVICE u64 mn_major_descriptor(u32 address) {
  constexpr u64 next_rows = unit_rows * stage_span / 16;
  return swizzled_descriptor(address, next_rows);
}

// Its lower half is pinned; the upper is the same for all tiles.
DEEPGEMM_DEVICE u64 pinned_descriptor(u64 descriptor) {
  constexpr u64 lower = 0xFFFFFFFF;
  return (descriptor & ~lower) | ptx::pinned(static_cast<u32>(descriptor));
}

DEEPGEMM_DEVICE u64 descriptor(u32 address, bool mn_major) {
  return mn_major ? mn_major_descriptor(address) : k_major_descriptor(address);
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
  const u64 a = descriptor(shared + map.a + row * stage_span, C.a_mn_major);
  const u64 b = descriptor(shared + map.b + column * stage_span, C.b_mn_major);
  if constexpr (C.k_grouped()) return {pinned_descriptor(a), pinned_descriptor(b)};
  return {a, b};
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
DEEPGEMM_DEVICE Operands operands_of(const Operands& operands, int stage, int unit) {
  return {operands.a + static_cast<u64>(stage * (C.a_bytes() >> 4) +
                                        unit * (C.unit_pitch() * stage_span >> 4)),
          operands.b + static_cast<u64>(stage * (C.b_bytes() >> 4))};
}

template <GemmConfig C>
DEEPGEMM_DEVICE void multiply(const Operands& operands, int stage, int unit) {
  const Operands at = operands_of<C>(operands, stage, unit);
  multiply_block<C.group_columns(), C.a_type, C.b_type, 0>(at.a, at.b);
}

// 16-bit operands: slot += A[64, 64] * B[columns, 64]^T, or = where `adds` is 0. The caller fences
// and commits.
template <int Columns, ElementType Type, int Slot, bool MnMajorA = false, bool MnMajorB = false>
DEEPGEMM_DEVICE void accumulate_block(u64 a, u64 b, i32 adds) {
  using Instruction = ptx::Wgmma<Columns, Type, Type, Slot>;
  // 16 of K in descriptor units: 32 bytes of a row, or 16 lines.
  constexpr u64 step_a = (MnMajorA ? 16 * stage_span : 32) / 16;
  constexpr u64 step_b = (MnMajorB ? 16 * stage_span : 32) / 16;
  Instruction::template accumulate<MnMajorA, MnMajorB>(a, b, adds);
#pragma unroll
  for (int i = 1; i < 4; ++i) {
    Instruction::template accumulate<MnMajorA, MnMajorB>(a + i * step_a, b + i * step_b, 1);
  }
}

// The rows of `Unit`, into the slot of its number.
template <GemmConfig C, int Unit>
DEEPGEMM_DEVICE void accumulate(const Operands& operands, int stage, i32 adds) {
  const Operands at = operands_of<C>(operands, stage, Unit);
  accumulate_block<C.group_columns(), C.a_type, Unit, C.a_mn_major != 0, C.b_mn_major != 0>(
      at.a, at.b, adds);
}

// The sums of slot `Unit`, once its WGMMAs are complete.
template <int Columns, int Unit, int Group = 0>
DEEPGEMM_DEVICE void read_partial(float* sum) {
  if constexpr (Group * 8 < Columns) {
    ptx::Partial<Group, Unit>::read(sum);
    read_partial<Columns, Unit, Group + 1>(sum);
  }
}

}  // namespace deepgemm::device
