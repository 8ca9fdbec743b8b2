// The sum of a tile over the CTAs of a cluster that split K.
#pragma once

#include "common/gemm_config.cuh"
#include "ptx/barrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/thread.cuh"

namespace deepgemm::device {

// Where this thread's four sums of group g of eight columns lie in the buffer that CTA 0 keeps for
// CTA `rank`: 32 lanes beside each other, so that a warp writes and reads 512 bytes in a row.
template <GemmConfig C>
DEEPGEMM_DEVICE u32 sum_place(u32 shared, int rank, int warp, int unit, int g) {
  constexpr int groups = C.group_columns() / 8;
  const int line =
      ((warp / warps_per_group * C.units() + unit) * warps_per_group + warp % warps_per_group) *
          groups +
      g;
  return shared + shared_map(C).reduction + (rank - 1) * (C.consumers * C.group_sum_bytes()) +
         line * 512 + ptx::lane_index() * 16;
}

// One warp, before the others use the barrier: CTA 0 gets so many bytes of sums.
template <GemmConfig C>
DEEPGEMM_DEVICE void expect_sums(u32 shared) {
  const u32 sent = shared + shared_map(C).sent;
  if (ptx::lane_index() == 0) {
    ptx::mbarrier_init(sent, 1);
    ptx::mbarrier_init_fence();
    ptx::mbarrier_arm(sent, C.reduction_bytes());
  }
  ptx::sync_warp();
}

// CTAs 1.. send their sums to CTA 0, which adds them in the order of ranks, so that the result does
// not depend on timing. They are counted by CTA 0's barrier `sent`, and sent once it runs (a
// cluster barrier, at which all arrived when they started); each CTA has one tile only, so that no
// buffer is written twice. True in the CTA that stores.
template <GemmConfig C>
DEEPGEMM_DEVICE bool sum_over_cluster(float (&sum)[C.units()][C.accumulators()], u32 shared) {
  const int rank = ptx::cluster_rank(), warp = ptx::warp_index();
  const u32 sent = shared + shared_map(C).sent;
  ptx::cluster_wait();
  if (rank != 0) {
#pragma unroll
    for (int unit = 0; unit < C.units(); ++unit) {
#pragma unroll
      for (int g = 0; g < C.group_columns() / 8; ++g) {
        const float* s = &sum[unit][4 * g];
        const float value[4] = {s[0], s[1], s[2], s[3]};
        ptx::store_remote_f32x4(sum_place<C>(shared, rank, warp, unit, g), 0, value, sent);
      }
    }
    return false;
  }
  ptx::mbarrier_wait(sent, 0);
#pragma unroll 1
  for (int other = 1; other < C.cluster_k; ++other) {
#pragma unroll
    for (int unit = 0; unit < C.units(); ++unit) {
#pragma unroll
      for (int g = 0; g < C.group_columns() / 8; ++g) {
        float part[4];
        ptx::load_shared_f32x4(part, sum_place<C>(shared, other, warp, unit, g));
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[unit][4 * g + i] += part[i];
      }
    }
  }
  return true;
}

}  // namespace deepgemm::device
