// From swapped sums (rows of B by tokens) to D, one fragment at a time; and their sum over a
// cluster.
#pragma once

#include "common/decode_config.cuh"
#include "epilogue/store.cuh"
#include "epilogue/transform.cuh"
#include "ptx/barrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/thread.cuh"

namespace deepgemm::device {

// Two neighbours along N.
template <ElementType Type>
DEEPGEMM_DEVICE void store_pair(const DecodeParams& p, int m, int n, u32 pair) {
  if (m >= p.m || n >= p.n) return;
  u16* out = static_cast<u16*>(p.out) + m * p.out_row + n;
  if (n + 1 < p.n) {
    *reinterpret_cast<u32*>(out) = pair;
  } else {
    *out = static_cast<u16>(pair);
  }
}

// A warp's fragment: lane l holds row `row` + l / 4 (and 8 rows below) of tokens `token` + l % 4 *
// 2 and the next: value = {row, token}, {row, token + 1}, {row + 8, token}, {row + 8, token + 1}.
template <DecodeConfig C>
DEEPGEMM_DEVICE void store_fragment(const DecodeParams& p, int row, int token,
                                    const float (&value)[4]) {
  const int lane = ptx::lane_index();
  if constexpr (bytes_of(C.out_type) == 2) {
    // Transposed, so that a lane holds two neighbours of D's row.
    const u32 upper = ptx::transpose_matrix(pack_pair<C.out_type>(value[0], value[1]));
    const u32 lower = ptx::transpose_matrix(pack_pair<C.out_type>(value[2], value[3]));
    const int m = token + lane / 4, n = row + lane % 4 * 2;
    store_pair<C.out_type>(p, m, n, upper);
    store_pair<C.out_type>(p, m, n + 8, lower);
  } else if constexpr (C.general_epilogue) {
    // Rolled, so that the transform is compiled once; selects, so that `value` stays in registers.
#pragma unroll 1
    for (int i = 0; i < 4; ++i) {
      const i64 m = token + lane % 4 * 2 + i % 2, n = row + lane / 4 + i / 2 * 8;
      if (m >= p.m || n >= p.n) continue;
      const float sum = i == 0 ? value[0] : i == 1 ? value[1] : i == 2 ? value[2] : value[3];
      store_element(p.out, m * p.out_row + n * p.out_column,
                    static_cast<ElementType>(p.epilogue.out_type),
                    transform(sum, p.epilogue, m, n));
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const i64 m = token + lane % 4 * 2 + i % 2, n = row + lane / 4 + i / 2 * 8;
      if (m < p.m && n < p.n) {
        static_cast<float*>(p.out)[m * p.out_row + n * p.out_column] = value[i];
      }
    }
  }
}

// Sends each fragment to the CTA that owns it, slot `rank` of its buffer, to be counted by `sent`.
template <DecodeConfig C>
DEEPGEMM_DEVICE void send_fragments(const float* sum, u32 buffer, u32 sent, int rank, int warp) {
#pragma unroll
  for (int j = 0; j < C.tokens / 8; ++j) {
    const int fragment = warp * (C.tokens / 8) + j;
    const u32 place = (rank * C.owned_fragments() + fragment % C.owned_fragments()) * 512;
    const float value[4] = {sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]};
    const u32 address = buffer + place + ptx::lane_index() * 16;
    if constexpr (C.cluster_k > 1) {
      ptx::store_remote_f32x4(address, fragment / C.owned_fragments(), value, sent);
    } else {
      ptx::store_shared_f32x4(address, value);
    }
  }
}

// One warp, before the others use the barrier: all CTAs of the cluster send this one's fragments.
template <DecodeConfig C>
DEEPGEMM_DEVICE void expect_fragments(u32 sent, int rank) {
  constexpr int owned = C.owned_fragments();
  const int mine = max_of(0, min_of(owned, C.fragments() - rank * owned));
  if (ptx::lane_index() == 0) {
    ptx::mbarrier_init(sent, 1);
    ptx::mbarrier_init_fence();
    ptx::mbarrier_arm(sent, C.consumers * C.cluster_k * mine * 512);
  }
  ptx::sync_warp();
}

// Sums the fragments that this CTA owns in the order of ranks, so that the result does not depend
// on timing, and stores them. `row`: the warpgroup's first row of B.
template <DecodeConfig C>
DEEPGEMM_DEVICE void store_owned_fragments(const DecodeParams& p, u32 buffer, int rank, int warp,
                                           int row) {
  constexpr int owned = C.owned_fragments();
#pragma unroll 1
  for (int i = warp; i < owned; i += warps_per_group) {
    const int fragment = rank * owned + i;
    if (fragment >= C.fragments()) return;
    float total[4] = {};
#pragma unroll
    for (int r = 0; r < C.cluster_k; ++r) {
      float part[4];
      ptx::load_shared_f32x4(part, buffer + (r * owned + i) * 512 + ptx::lane_index() * 16);
#pragma unroll
      for (int e = 0; e < 4; ++e) total[e] += part[e];
    }
    store_fragment<C>(p, row + fragment / (C.tokens / 8) * 16, fragment % (C.tokens / 8) * 8,
                      total);
  }
}

}  // namespace deepgemm::device
