// The tensor memory accelerator: bulk copies between global and shared memory through a TensorMap.
#pragma once

#include "common/gemm_params.cuh"
#include "common/l2_policy.cuh"
#include "common/types.cuh"

namespace deepgemm::device::ptx {

// prefetch.tensormap [addr]; (PTX ISA 9.7.9.17; sm_90)
DEEPGEMM_DEVICE void prefetch_tensor_map(const TensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}
// cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint
//   [dst], [map, {x, y}], [mbarrier], policy; (PTX ISA 9.7.9.25; sm_90) x is the contiguous
// coordinate.
DEEPGEMM_DEVICE void tma_load_2d(u32 destination, const TensorMap& map, int x, int y, u32 barrier,
                                 L2Policy policy = L2Policy::evict_normal) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(destination),
      "l"(&map), "r"(x), "r"(y), "r"(barrier), "l"(static_cast<u64>(policy))
      : "memory");
}
DEEPGEMM_DEVICE void tma_load_3d(u32 destination, const TensorMap& map, int x, int y, int z,
                                 u32 barrier, L2Policy policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".L2::cache_hint [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(destination),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier), "l"(static_cast<u64>(policy))
      : "memory");
}
// tma_load_2d into every CTA of `cta_mask`, at the same offset, completing on each one's own
// barrier.
DEEPGEMM_DEVICE void tma_load_2d_multicast(u32 destination, const TensorMap& map, int x, int y,
                                           u32 barrier, u16 cta_mask, L2Policy policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
      ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3}], [%4], %5, %6;" ::"r"(destination),
      "l"(&map), "r"(x), "r"(y), "r"(barrier), "h"(cta_mask), "l"(static_cast<u64>(policy))
      : "memory");
}
// cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {x, y}], [src]; (sm_90)
DEEPGEMM_DEVICE void tma_store_2d(const TensorMap& map, int x, int y, u32 source) {
  asm volatile(
      "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
      "r"(x), "r"(y), "r"(source)
      : "memory");
}
DEEPGEMM_DEVICE void tma_store_3d(const TensorMap& map, int x, int y, int z, u32 source) {
  asm volatile(
      "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%1, %2, %3}], [%4];" ::"l"(&map),
      "r"(x), "r"(y), "r"(z), "r"(source)
      : "memory");
}
// cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [map, {x, y}], [src]; (PTX ISA
// 9.7.9.25; sm_90) Adds in the map's type. No two CTAs add to one element, so the result does not
// depend on timing.
DEEPGEMM_DEVICE void tma_add_2d(const TensorMap& map, int x, int y, u32 source) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [%0, {%1, %2}], [%3];" ::
          "l"(&map),
      "r"(x), "r"(y), "r"(source)
      : "memory");
}
DEEPGEMM_DEVICE void tma_add_3d(const TensorMap& map, int x, int y, int z, u32 source) {
  asm volatile(
      "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group [%0, {%1, %2, %3}], "
      "[%4];" ::"l"(&map),
      "r"(x), "r"(y), "r"(z), "r"(source)
      : "memory");
}
// cp.async.bulk.commit_group; cp.async.bulk.wait_group.read N; (PTX ISA 9.7.9.25; sm_90)
DEEPGEMM_DEVICE void tma_store_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Until the shared memory of all committed stores may be written again.
DEEPGEMM_DEVICE void tma_store_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
// Orders this thread's ordinary shared-memory writes before later TMA reads of them.
// fence.proxy.async.shared::cta; (PTX ISA 9.7.13.4; sm_90)
DEEPGEMM_DEVICE void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

}  // namespace deepgemm::device::ptx
