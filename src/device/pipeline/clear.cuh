// Zeros over what of a stage's K is not the group's: TMA brings whole stages, and 0 times the NaN
// of a neighbour would be NaN. Run by all consumers before any of them multiplies the stage.
#pragma once

#include "common/gemm_config.cuh"
#include "common/swizzle.cuh"
#include "ptx/memory.cuh"

namespace deepgemm::device {

// Of an operand's stage only K elements begin ... end - 1 are kept.
struct KeptK {
  int begin, end;

  DEEPGEMM_DEVICE bool has(int k) const { return k >= begin && k < end; }
  // Of the 4 bytes from element `k` on, as a mask.
  template <int Bytes>
  DEEPGEMM_DEVICE u32 bits(int k) const {
    u32 mask = 0;
#pragma unroll
    for (int i = 0; i < 4 / Bytes; ++i) {
      constexpr u32 element = Bytes == 1 ? 0xFF : 0xFFFF;
      if (has(k + i)) mask |= element << (i * Bytes * 8);
    }
    return mask;
  }
};

// Rows whose K is contiguous: 16 bytes at a time.
template <int Bytes>
DEEPGEMM_DEVICE void clear_k_major(u32 tile, int rows, KeptK kept, int thread, int threads) {
  constexpr int units = stage_span / 16, word = 4 / Bytes;  // elements of 4 bytes
#pragma unroll 1
  for (int i = thread; i < rows * units; i += threads) {
    const int k = i % units * (16 / Bytes);
    if (k >= kept.begin && k + 16 / Bytes <= kept.end) continue;
    const u32 address = tile + swizzled(i * 16, stage_span);
    // FP8: sizes along K are multiples of 16, so units are whole; and none may be read, since rows
    // outside were not loaded.
    if (Bytes == 1 || k >= kept.end || k + 16 / Bytes <= kept.begin) {
      ptx::store_shared_i32x4(address, 0, 0, 0, 0);
      continue;
    }
    const ptx::Int4 v = ptx::load_shared_i32x4(address);
    ptx::store_shared_i32x4(address, v.x & static_cast<i32>(kept.bits<Bytes>(k)),
                            v.y & static_cast<i32>(kept.bits<Bytes>(k + word)),
                            v.z & static_cast<i32>(kept.bits<Bytes>(k + 2 * word)),
                            v.w & static_cast<i32>(kept.bits<Bytes>(k + 3 * word)));
  }
}

// Lines of 64 rows at one k: the lines outside. (The swizzle stays inside a line.)
template <int StageK>
DEEPGEMM_DEVICE void clear_mn_major(u32 tile, int rows, KeptK kept, int thread, int threads) {
  constexpr int units = stage_span / 16;
  const int outside = kept.begin + StageK - kept.end;
#pragma unroll 1
  for (int i = thread; i < rows / unit_rows * outside * units; i += threads) {
    const int line = i / units % outside, box = i / units / outside;
    const int k = line < kept.begin ? line : line - kept.begin + kept.end;
    ptx::store_shared_i32x4(tile + (box * StageK + k) * stage_span + i % units * 16, 0, 0, 0, 0);
  }
}

template <GemmConfig C>
DEEPGEMM_DEVICE void clear_stage(u32 a, u32 b, KeptK kept, int thread) {
  constexpr int threads = C.consumers * 128, bytes = bytes_of(C.a_type);
  if constexpr (C.a_mn_major) {
    clear_mn_major<C.stage_k()>(a, C.tile_m, kept, thread, threads);
  } else {
    clear_k_major<bytes>(a, C.tile_m, kept, thread, threads);
  }
  if constexpr (C.b_mn_major) {
    clear_mn_major<C.stage_k()>(b, C.b_columns(), kept, thread, threads);
  } else {
    clear_k_major<bytes>(b, C.tile_n, kept, thread, threads);
  }
}

}  // namespace deepgemm::device
