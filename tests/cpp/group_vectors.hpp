// Group vectors for the tests of schedules.
#pragma once

#include <vector>

#include "common/group_vector.cuh"
#include "scheduler/grouped.cuh"
#include "test_tensors.hpp"

namespace test {

using namespace deepgemm::device;

using Values = std::vector<std::int64_t>;
using Form = GroupVectorForm;

// A group vector with its memory; elements `step` apart.
struct Vector {
  Vector(Form form, const Values& values, std::int64_t groups, std::int64_t rows, bool wide = false,
         i32 alignment = 1, i64 step = 1)
      : memory(values.size() * std::size_t(step) + 1) {
    auto* narrow = reinterpret_cast<i32*>(memory.data());
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (wide)
        memory[i * std::size_t(step)] = values[i];
      else
        narrow[i * std::size_t(step)] = i32(values[i]);
    }
    view = {memory.data(), step, wide, form, i32(groups), i32(rows), alignment};
  }
  Values memory;
  GroupVector view;
};

// Uniform, one group with everything, mostly empty, each half of the one before, single rows.
inline Values random_sizes(Random& random, std::int64_t groups, std::int64_t total) {
  Values sizes(std::size_t(groups), 0);
  const auto any = [&] { return std::size_t(random.integer(0, groups - 1)); };
  switch (random.integer(0, 4)) {
    case 0:
      for (auto& size : sizes) size = random.integer(0, 2 * total / groups);
      break;
    case 1:
      sizes[any()] = total;
      break;
    case 2:
      for (int i = 0; i < 3; ++i) sizes[any()] = random.integer(0, total / 3);
      break;
    case 3:
      for (std::int64_t left = total; left > 0; left /= 2) sizes[any()] = left / 4;
      break;
    default:
      for (auto& size : sizes) size = random.integer(0, 1);
  }
  return sizes;
}

inline GroupTiling random_tiling(Random& random) {
  constexpr i32 heights[] = {8, 16, 64, 128, 192, 256, 512};
  return {heights[random.integer(0, 6)], i32(8 * random.integer(1, 32)), i32(random.integer(1, 9)),
          i32(random.integer(1, 12)), random.integer(0, 1) == 0 ? 1 : 4};
}

}  // namespace test
