// Thread, warp, CTA and cluster indices, and warp-wide operations.
#pragma once

#include "common/types.cuh"

namespace deepgemm::device::ptx {

inline constexpr u32 all_lanes = 0xFFFFFFFFu;

DEEPGEMM_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
DEEPGEMM_DEVICE int lane_index() { return static_cast<int>(threadIdx.x & 31); }
// Warp-uniform, in a uniform register. Why: without the shuffle the compiler cannot know that roles
// do not diverge inside a warp.
DEEPGEMM_DEVICE int warp_index() {
  return __shfl_sync(all_lanes, static_cast<int>(threadIdx.x >> 5), 0);
}
DEEPGEMM_DEVICE int cta_index() { return static_cast<int>(blockIdx.x); }
DEEPGEMM_DEVICE int cta_index_y() { return static_cast<int>(blockIdx.y); }
DEEPGEMM_DEVICE int cta_count() { return static_cast<int>(gridDim.x); }
DEEPGEMM_DEVICE int cta_threads() { return static_cast<int>(blockDim.x); }

// mov.u32 d, %cluster_ctarank; (PTX ISA 10, special registers; sm_90)
DEEPGEMM_DEVICE int cluster_rank() {
  u32 rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return static_cast<int>(rank);
}

// elect.sync d|p, membermask; (PTX ISA 9.7.14; sm_90) True in one lane of a converged warp.
DEEPGEMM_DEVICE bool elect_one() {
  u32 chosen;
  asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}\n"
               : "=r"(chosen));
  return chosen != 0;
}

template <class T>
DEEPGEMM_DEVICE T shuffle(T value, int lane) {
  return __shfl_sync(all_lanes, value, lane);
}
// A value that all lanes have, in a register of its own. Why: what ptxas can compute again from
// constants it computes again in each round of a loop (64x32 tiles took 17 % longer).
DEEPGEMM_DEVICE u32 pinned(u32 value) { return shuffle(value, 0); }
template <class T>
DEEPGEMM_DEVICE const T* pinned(const T* address) {
  return reinterpret_cast<const T*>(shuffle(reinterpret_cast<unsigned long long>(address), 0));
}
template <class T>
DEEPGEMM_DEVICE T shuffle_xor(T value, int mask) {
  return __shfl_xor_sync(all_lanes, value, mask);
}
// vote.sync.ballot.b32 d, a, membermask; (PTX ISA 9.7.13) The first lane where it holds; 32: none.
DEEPGEMM_DEVICE int first_lane_where(bool holds) {
  return __clz(static_cast<int>(__brev(__ballot_sync(all_lanes, holds))));
}
DEEPGEMM_DEVICE void sync_warp() { __syncwarp(); }
DEEPGEMM_DEVICE void sync_cta() { __syncthreads(); }

}  // namespace deepgemm::device::ptx
