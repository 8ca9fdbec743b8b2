// The products sfa * sfb of a CTA's share of K, in shared memory: [k block][token].
#pragma once

#include "common/decode_config.cuh"
#include "ptx/memory.cuh"
#include "ptx/thread.cuh"

namespace deepgemm::device {

// Run by every consumer thread; the caller synchronises. Blocks past the end of K get 0, so that
// the zeros TMA fills there meet a finite factor. Why batches of eight: a loop of load, load, store
// waits for one cold memory latency each time round (M = 64, 7168x16384: 43.1 -> 37.3 us).
template <DecodeConfig C>
DEEPGEMM_DEVICE void fill_scale_table(const DecodeParams& p, u32 table, int first_block, int blocks,
                                      int first_row) {
  constexpr int batch = 8, step = C.consumers * 128;
  const float* sfb = p.sfb + first_row / scale_block_n * p.sfb_row;
  const int count = blocks * C.tokens;
#pragma unroll 1
  for (int start = ptx::thread_index(); start < count; start += batch * step) {
    float a[batch], b[batch];
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const int index = start + i * step;
      const int token = index % C.tokens, block = first_block + index / C.tokens;
      a[i] = b[i] = 0.0f;
      if (index < count && token < p.m && block < p.k_blocks) {
        a[i] = ptx::load_global_f32(p.sfa + token * p.sfa_row + block * p.sfa_k);
        b[i] = ptx::load_global_f32(sfb + block * p.sfb_k);
      }
    }
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      const int index = start + i * step;
      if (index < count) ptx::store_shared_f32(table + index * 4, a[i] * b[i]);
    }
  }
}

// sum += factor[token] * slot. `factors`: the table's line of the K block, at this lane's token.
template <int Tokens, int Slot, int Group = 0>
DEEPGEMM_DEVICE void promote_tokens(float* sum, u32 factors) {
  if constexpr (Group * 8 < Tokens) {
    float even, odd;
    ptx::load_shared_f32x2(even, odd, factors + Group * 32);
    ptx::Promote<Group, Slot>::apply(sum, even, odd, even, odd);
    promote_tokens<Tokens, Slot, Group + 1>(sum, factors);
  }
}

}  // namespace deepgemm::device
