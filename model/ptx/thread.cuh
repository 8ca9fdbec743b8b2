// src/device/ptx/thread.cuh on the modelled machine.
#pragma once

#include <bit>
#include <cmath>
#include <cstring>

#include "common/types.cuh"
#include "machine/api.hpp"

namespace deepgemm::device::ptx {

inline constexpr u32 all_lanes = 0xFFFFFFFFu;
using Where = sm90::Where;

inline int thread_index() { return sm90::thread_index(); }
inline int lane_index() { return sm90::thread_index() & 31; }
inline int warp_index() { return sm90::thread_index() >> 5; }
inline int cta_index() { return sm90::cta_index(); }
inline int cta_index_y() { return 0; }
inline int cta_count() { return sm90::cta_count(); }
inline int cta_threads() { return sm90::cta_threads(); }
inline int cluster_rank() { return sm90::cluster_rank(); }

inline bool elect_one(const Where& where = Where::current()) {
  sm90::warp_together("elect", where);
  return lane_index() == 0;
}

template <class T>
T shuffle(T value, int lane, const Where& where = Where::current()) {
  u64 bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = sm90::shuffle(bits, lane, where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}
template <class T>
T shuffle_xor(T value, int mask, const Where& where = Where::current()) {
  return shuffle(value, lane_index() ^ mask, where);
}
// What the other lanes do not have is a fault, whichever lane needs it.
inline u32 pinned(u32 value, const Where& where = Where::current()) {
  sm90::check_same_in_warp(value, where);
  return value;
}
// Of a parameter each thread has a copy of its own here.
template <class T>
const T* pinned(const T* address, const Where& where = Where::current()) {
  return shuffle(address, 0, where);
}
inline int first_lane_where(bool holds, const Where& where = Where::current()) {
  return std::countr_zero(sm90::ballot(holds, where));
}
inline void sync_warp(const Where& where = Where::current()) {
  sm90::warp_together("syncwarp", where);
}
inline void sync_cta(const Where& where = Where::current()) { sm90::sync_cta(where); }

}  // namespace deepgemm::device::ptx
