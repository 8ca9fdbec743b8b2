// src/device/ptx/tma.cuh on the modelled machine.
#pragma once

#include "common/gemm_params.cuh"
#include "common/l2_policy.cuh"
#include "common/types.cuh"
#include "machine/api.hpp"
#include "ptx/thread.cuh"

namespace deepgemm::device::ptx {

inline void prefetch_tensor_map(const TensorMap&) {}

inline void tma_load_2d(u32 destination, const TensorMap& map, int x, int y, u32 barrier,
                        L2Policy = L2Policy::evict_normal, const Where& where = Where::current()) {
  sm90::tma_load(destination, &map, {{x, y}}, barrier, 0, where);
}
inline void tma_load_3d(u32 destination, const TensorMap& map, int x, int y, int z, u32 barrier,
                        L2Policy, const Where& where = Where::current()) {
  sm90::tma_load(destination, &map, {{x, y, z}}, barrier, 0, where);
}
inline void tma_load_2d_multicast(u32 destination, const TensorMap& map, int x, int y, u32 barrier,
                                  u16 cta_mask, L2Policy, const Where& where = Where::current()) {
  sm90::tma_load(destination, &map, {{x, y}}, barrier, cta_mask, where);
}
inline void tma_store_2d(const TensorMap& map, int x, int y, u32 source,
                         const Where& where = Where::current()) {
  sm90::tma_store(&map, {{x, y}}, source, false, where);
}
inline void tma_store_3d(const TensorMap& map, int x, int y, int z, u32 source,
                         const Where& where = Where::current()) {
  sm90::tma_store(&map, {{x, y, z}}, source, false, where);
}
inline void tma_add_2d(const TensorMap& map, int x, int y, u32 source,
                       const Where& where = Where::current()) {
  sm90::tma_store(&map, {{x, y}}, source, true, where);
}
inline void tma_add_3d(const TensorMap& map, int x, int y, int z, u32 source,
                       const Where& where = Where::current()) {
  sm90::tma_store(&map, {{x, y, z}}, source, true, where);
}
inline void tma_store_commit(const Where& where = Where::current()) { sm90::tma_commit(where); }
inline void tma_store_wait_read(const Where& where = Where::current()) {
  sm90::tma_wait_read(0, where);
}
inline void fence_async_proxy(const Where& where = Where::current()) {
  sm90::fence_async_proxy(where);
}

}  // namespace deepgemm::device::ptx
