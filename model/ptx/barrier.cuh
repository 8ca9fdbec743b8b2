// src/device/ptx/barrier.cuh on the modelled machine.
#pragma once

#include "common/types.cuh"
#include "machine/api.hpp"
#include "ptx/thread.cuh"

namespace deepgemm::device::ptx {

inline void mbarrier_init(u32 barrier, int arrivals, const Where& where = Where::current()) {
  sm90::mbarrier_init(barrier, arrivals, where);
}
inline void mbarrier_init_fence(const Where& where = Where::current()) {
  sm90::mbarrier_init_fence(where);
}
inline void mbarrier_arm(u32 barrier, int bytes, const Where& where = Where::current()) {
  sm90::mbarrier_arrive(barrier, bytes, where);
}
inline void mbarrier_arrive(u32 barrier, const Where& where = Where::current()) {
  sm90::mbarrier_arrive(barrier, 0, where);
}
inline void mbarrier_arrive_remote(u32 barrier, int rank, const Where& where = Where::current()) {
  sm90::mbarrier_arrive_remote(barrier, rank, where);
}
inline bool mbarrier_try_wait(u32 barrier, u32 parity, const Where& where = Where::current()) {
  return sm90::mbarrier_test(barrier, parity, where);
}
inline void mbarrier_wait(u32 barrier, u32 parity, const Where& where = Where::current()) {
  sm90::mbarrier_wait(barrier, parity, where);
}

inline void named_barrier_sync(int id, int threads, const Where& where = Where::current()) {
  sm90::named_barrier(id, threads, true, where);
}
inline void named_barrier_arrive(int id, int threads, const Where& where = Where::current()) {
  sm90::named_barrier(id, threads, false, where);
}

inline void cluster_arrive_relaxed(const Where& where = Where::current()) {
  sm90::cluster_arrive(where);
}
inline void cluster_wait(const Where& where = Where::current()) { sm90::cluster_wait(where); }
inline void cluster_sync(const Where& where = Where::current()) {
  sm90::cluster_arrive(where);
  sm90::cluster_wait(where);
}

inline void wait_for_previous_kernel(const Where& where = Where::current()) {
  sm90::wait_for_previous_kernel(where);
}
inline void let_next_kernel_start() {}

}  // namespace deepgemm::device::ptx
