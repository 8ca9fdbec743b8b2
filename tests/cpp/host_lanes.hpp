// The 32 numbers of a warp as an array, for schedules that are templated over them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>

#include "common/types.cuh"

namespace test {

using deepgemm::device::i32;

// WarpLanes as an array: what the 32 lanes of scheduler/lanes.cuh do together.
class HostLanes {
 public:
  template <class Function>
  static HostLanes of(Function&& function) {
    HostLanes lanes;
    for (i32 lane = 0; lane < 32; ++lane) lanes.values_[std::size_t(lane)] = function(lane);
    return lanes;
  }
  template <class Function>
  static void prefetch(Function&& address) {
    for (i32 lane = 0; lane < 32; ++lane) address(lane);
  }
  i32 own(i32 lane) const { return at(lane); }
  i32 at(i32 lane) const { return values_.at(std::size_t(lane)); }  // throws for no lane
  HostLanes sums(i32 most) const {
    std::int64_t sum = 0;
    return of([&](i32 lane) {
      if (at(lane) < 0 || at(lane) > most) throw std::out_of_range("a number to be summed");
      sum = std::min<std::int64_t>(sum + at(lane), most);
      return i32(sum);
    });
  }
  HostLanes shifted(i32 first) const {
    return of([&](i32 lane) { return lane == 0 ? first : at(lane - 1); });
  }
  HostLanes pick(const HostLanes& lanes) const {
    return of([&](i32 lane) { return at(lanes.at(lane)); });
  }
  HostLanes count_up_to(const HostLanes& values) const {
    return of([&](i32 lane) {
      i32 count = 0;
      for (i32 i = 0; i < 31; ++i) count += at(i) <= values.at(lane);
      return count;
    });
  }
  i32 first_other_than(i32 value) const {
    for (i32 lane = 0; lane < 32; ++lane) {
      if (at(lane) != value) return lane;
    }
    return 32;
  }

 private:
  std::array<i32, 32> values_{};
};

}  // namespace test
