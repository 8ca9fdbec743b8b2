// What a call launches through the fake driver, to the byte, and the same of a thread that has no
// plan yet: for tests that a call that was planned before is launched as if it were the first.
#pragma once

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "device/common/gemm_params.cuh"
#include "fake_driver/fake_driver.hpp"

namespace test {

struct RecordedLaunch {
  CUfunction function;
  CUcontext context;
  unsigned grid, block, shared_bytes;
  CUstream stream;
  std::string attributes, parameters;
  bool operator==(const RecordedLaunch&) const = default;
};
using Launches = std::vector<RecordedLaunch>;

inline thread_local Launches* recorded = nullptr;

// Makes the fake driver tell this thread's `recorded` of each launch.
inline void record_launches() {
  static std::once_flag once;
  std::call_once(once, [] {
    deepgemm::fake::use_fake_driver().on_launch = [](const deepgemm::fake::LaunchCall& launch) {
      if (recorded == nullptr) return;
      const auto bytes = [](const void* data, std::size_t size) {
        return std::string(static_cast<const char*>(data), size);
      };
      recorded->push_back(
          {launch.function, launch.context, launch.grid, launch.block, launch.shared_bytes,
           launch.stream,
           bytes(launch.attributes.data(), launch.attributes.size() * sizeof(CUlaunchAttribute)),
           bytes(launch.parameters, sizeof(deepgemm::device::GemmParams))});
    };
  });
}

// What `call` launches in this thread. Products alone: their parameters lie in memory of one size.
inline Launches launches_of(const std::function<void()>& call) {
  record_launches();
  Launches made;
  struct Scope {
    explicit Scope(Launches* launches) { recorded = launches; }
    ~Scope() { recorded = nullptr; }  // the call may throw
  } const scope(&made);
  call();
  return made;
}

inline Launches launches_in_a_new_thread(const std::function<void()>& call) {
  Launches made;
  std::thread([&] { made = launches_of(call); }).join();
  return made;
}

struct Variant {
  std::string what;
  std::function<void()> call;
};

// Each of the calls launches what it would as a thread's first one, whichever came before it, and
// something else than the first of them: a plan that served another call would show.
inline void check_repeats(const std::vector<Variant>& variants) {
  std::vector<Launches> expected;
  for (const Variant& variant : variants) {
    expected.push_back(launches_in_a_new_thread(variant.call));
    CAPTURE(variant.what);
    CHECK_FALSE(expected.back().empty());
    if (expected.size() > 1) CHECK_FALSE(expected.back() == expected.front());
  }
  for (std::size_t i = 0; i < variants.size(); ++i) {
    CAPTURE(variants[i].what);
    CHECK((launches_of(variants.front().call) == expected.front()));
    CHECK((launches_of(variants[i].call) == expected[i]));
  }
  for (std::size_t i = variants.size(); i-- > 0;) {  // now all of them are there
    CAPTURE(variants[i].what);
    CHECK((launches_of(variants[i].call) == expected[i]));
  }
}

}  // namespace test
