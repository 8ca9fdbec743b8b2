// 32 numbers, one in each lane of a warp, and what the schedules of groups ask of them. All lanes
// call together. tests/cpp/host_lanes.hpp is the same as an array, for tests on the host.
#pragma once

#include "common/group_vector.cuh"
#include "ptx/memory.cuh"
#include "ptx/thread.cuh"

namespace deepgemm::device {

class WarpLanes {
 public:
  WarpLanes() = default;
  // function(lane) in each lane.
  template <class Function>
  DEEPGEMM_DEVICE static WarpLanes of(Function&& function) {
    return WarpLanes(function(ptx::lane_index()));
  }
  // Brings what is at address(lane), or nullptr, nearer to each lane.
  template <class Function>
  DEEPGEMM_DEVICE static void prefetch(Function&& address) {
    const void* at = address(ptx::lane_index());
    if (at != nullptr) ptx::prefetch_l1(at);
  }
  // The number of a lane, asked by that lane.
  DEEPGEMM_DEVICE i32 own(i32) const { return value_; }
  // The number of `lane`, in every lane.
  DEEPGEMM_DEVICE i32 at(i32 lane) const { return ptx::shuffle(value_, lane); }

  // Sums of the lanes up to each one. Numbers are 0 to `most`, and sums stop there.
  DEEPGEMM_DEVICE WarpLanes sums(i32 most) const {
    const i32 lane = ptx::lane_index();
    i32 sum = value_;
    for (i32 step = 1; step < 32; step *= 2) {
      const i32 below = ptx::shuffle(sum, max_of(lane - step, 0));
      if (lane >= step) sum = sum_up_to(sum, below, most);
    }
    return WarpLanes(sum);
  }
  // The number of the lane before; `first` in lane 0.
  DEEPGEMM_DEVICE WarpLanes shifted(i32 first) const {
    const i32 lane = ptx::lane_index();
    const i32 before = ptx::shuffle(value_, max_of(lane - 1, 0));
    return WarpLanes(lane == 0 ? first : before);
  }
  // The number of the lane that `lanes` names, for each lane.
  DEEPGEMM_DEVICE WarpLanes pick(const WarpLanes& lanes) const {
    return WarpLanes(ptx::shuffle(value_, lanes.value_));
  }
  // Of numbers in ascending order, how many are at most `values`, for each lane; 31 for all 32.
  DEEPGEMM_DEVICE WarpLanes count_up_to(const WarpLanes& values) const {
    i32 count = 0;
    for (i32 step = 16; step > 0; step /= 2) {
      if (ptx::shuffle(value_, count + step - 1) <= values.value_) count += step;
    }
    return WarpLanes(count);
  }
  // The first lane whose number is not `value`; 32 if there is none.
  DEEPGEMM_DEVICE i32 first_other_than(i32 value) const {
    return ptx::first_lane_where(value_ != value);
  }

 private:
  DEEPGEMM_DEVICE explicit WarpLanes(i32 value) : value_(value) {}
  i32 value_ = 0;
};

}  // namespace deepgemm::device
