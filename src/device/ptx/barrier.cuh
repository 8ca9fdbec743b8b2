// Barriers: mbarrier (shared memory, with transaction bytes), named (CTA) and cluster.
#pragma once

#include "common/types.cuh"
#include "ptx/thread.cuh"

namespace deepgemm::device::ptx {

// mbarrier.init.shared::cta.b64 [addr], count; (PTX ISA 9.7.13.15; sm_80)
DEEPGEMM_DEVICE void mbarrier_init(u32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
// Makes the inits visible to the async proxy and to the cluster.
// fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta; (PTX ISA 9.7.13.4; sm_90)
DEEPGEMM_DEVICE void mbarrier_init_fence() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// mbarrier.arrive.expect_tx.shared::cta.b64 _, [addr], bytes; (sm_90) One arrival that also adds
// `bytes` to what the phase waits for.
DEEPGEMM_DEVICE void mbarrier_arm(u32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
// mbarrier.arrive.shared::cta.b64 _, [addr]; (sm_80) Release at CTA scope by default.
DEEPGEMM_DEVICE void mbarrier_arrive(u32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// The same on CTA `rank` of the cluster. Why no .release.cluster: it makes a GPU-wide MEMBAR of
// each arrival (1009 -> 675 us at 4096x7168x16384, docs/performance.md), and what it releases here
// is only "these WGMMA reads are done", which wgmma.wait_group has already ordered.
DEEPGEMM_DEVICE void mbarrier_arrive_remote(u32 barrier, int rank) {
  asm volatile(
      "{\n.reg .b32 remote;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [remote];\n}\n" ::"r"(barrier),
      "r"(rank)
      : "memory");
}
// mbarrier.try_wait.parity.shared::cta.b64 p, [addr], parity; (sm_90)
DEEPGEMM_DEVICE bool mbarrier_try_wait(u32 barrier, u32 parity) {
  u32 done;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}
// The whole warp waits and leaves together. Why: a vote keeps stage and phase in uniform registers;
// without it every WGMMA is preceded by R2UR and every TMA by a divergence loop (767 -> 720 us).
DEEPGEMM_DEVICE void mbarrier_wait(u32 barrier, u32 parity) {
  while (!__all_sync(all_lanes, mbarrier_try_wait(barrier, parity))) {
  }
}

// bar.sync id, threads; bar.arrive id, threads; (PTX ISA 9.7.13.1)
DEEPGEMM_DEVICE void named_barrier_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
DEEPGEMM_DEVICE void named_barrier_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; (PTX ISA 9.7.13.3; sm_90)
DEEPGEMM_DEVICE void cluster_sync() {
  asm volatile(
      "barrier.cluster.arrive.aligned;\n"
      "barrier.cluster.wait.aligned;" ::
          : "memory");
}

// The halves of the same barrier. Relaxed: only "this CTA runs", and no MEMBAR over the whole GPU.
DEEPGEMM_DEVICE void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
DEEPGEMM_DEVICE void cluster_wait() {
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// griddepcontrol.wait; griddepcontrol.launch_dependents; (PTX ISA 9.7.13.13; sm_90) Both do nothing
// in a launch without programmatic stream serialisation.
// Until the kernels before this one in the stream are complete and their writes visible.
DEEPGEMM_DEVICE void wait_for_previous_kernel() {
  asm volatile("griddepcontrol.wait;" ::: "memory");
}
// The next kernel's CTAs may start where there is room; they wait as above for what they read.
DEEPGEMM_DEVICE void let_next_kernel_start() {
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

}  // namespace deepgemm::device::ptx
