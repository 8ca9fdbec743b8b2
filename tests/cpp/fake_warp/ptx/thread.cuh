// What scheduler/lanes.cuh asks of ptx/thread.cuh, for 32 threads of the host that meet at every
// shuffle. Found before the real one by the test of the lanes alone.
#pragma once

#include <array>
#include <barrier>

#include "common/types.cuh"

namespace deepgemm::device::ptx {

inline thread_local int this_lane = 0;

inline int lane_index() { return this_lane; }

inline i32 shuffle(i32 value, int lane) {
  static std::barrier<> meeting(32);
  static std::array<i32, 32> shown;
  shown[static_cast<std::size_t>(this_lane)] = value;
  meeting.arrive_and_wait();
  const i32 found = shown.at(static_cast<std::size_t>(lane));
  meeting.arrive_and_wait();  // nobody shows the next number while others look
  return found;
}
inline int first_lane_where(bool holds) {
  int first = 32;
  for (int lane = 31; lane >= 0; --lane) {
    if (shuffle(holds ? 1 : 0, lane) != 0) first = lane;
  }
  return first;
}

}  // namespace deepgemm::device::ptx
