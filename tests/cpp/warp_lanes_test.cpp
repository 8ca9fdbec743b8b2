// WarpLanes by 32 threads against HostLanes, which the schedules are tested with.
#include "scheduler/lanes.cuh"

#include <doctest/doctest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "host_lanes.hpp"
#include "test_tensors.hpp"

using namespace deepgemm::device;
using test::HostLanes;
using test::Random;

namespace {

constexpr i32 largest = 0x7FFFFFFF;

// Numbers to sum, and what is asked of them.
struct Case {
  std::array<i32, 32> numbers;
  i32 most, value, lane;
};

Case random_case(Random& random) {
  Case c;
  const i32 high = i32(random.bits() & largest) >> random.integer(0, 30);
  for (i32& number : c.numbers) {
    number = random.integer(0, 2) == 0 ? high : i32(random.integer(0, high));
  }
  c.most = random.integer(0, 1) == 0 ? largest : high + i32(random.integer(0, largest - high));
  c.value = random.integer(0, 1) == 0 ? high : i32(random.integer(0, high));
  c.lane = i32(random.integer(0, 31));
  if (random.integer(0, 9) == 0) c.numbers.fill(c.value);
  return c;
}

// What every operation says in lane `lane`.
template <class Lanes>
std::array<i32, 7> asked(const Case& c, i32 lane) {
  const Lanes lanes = Lanes::of([&](i32 i) { return c.numbers[std::size_t(i)]; });
  const Lanes sorted = lanes.sums(c.most);
  return {lanes.own(lane),
          lanes.at(c.lane),
          lanes.sums(c.most).own(lane),
          lanes.shifted(c.value).own(lane),
          lanes.pick(Lanes::of([&](i32 i) { return (i * 7 + c.lane) % 32; })).own(lane),
          sorted.count_up_to(lanes).own(lane),
          lanes.first_other_than(c.value)};
}

}  // namespace

TEST_CASE("a warp's lanes do what the array does") {
  Random random(3);
  std::vector<Case> cases;
  for (int i = 0; i < 60; ++i) cases.push_back(random_case(random));
  std::atomic<int> wrong = 0;
  std::vector<std::thread> lanes;
  for (i32 lane = 0; lane < 32; ++lane) {
    lanes.emplace_back([&, lane] {
      ptx::this_lane = lane;
      for (const Case& c : cases) {
        if (asked<WarpLanes>(c, lane) != asked<HostLanes>(c, lane)) ++wrong;
      }
    });
  }
  for (std::thread& lane : lanes) lane.join();
  CHECK(wrong == 0);
}
