// What was found on this machine, first with nothing there, then with the fakes.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "deepgemm/runtime.hpp"
#include "fake_driver/fake_driver.hpp"
#include "jit_fixture.hpp"

using namespace deepgemm;

TEST_CASE("with neither driver nor NVRTC the problems are told, and nothing is thrown") {
  setenv("DEEPGEMM_CUDA_DRIVER_PATH", "/nonexistent/libcuda.so.1", 1);
  setenv("DEEPGEMM_NVRTC_PATH", "/nonexistent/libnvrtc.so.13", 1);
  const RuntimeInfo info = runtime_info();
  CHECK_FALSE(info.version.empty());
  CHECK(info.driver_version == 0);
  CHECK_FALSE(info.driver_problem.empty());
  CHECK(info.gpus.empty());
  CHECK(info.nvrtc_path.empty());
  CHECK_FALSE(info.nvrtc_problem.empty());
  CHECK(device_count() == 0);
  CHECK(usable_device() == -1);
}

TEST_CASE("driver, GPUs, NVRTC and cache are described, with no context made") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  const RuntimeInfo info = runtime_info();
  const std::pair<std::string, std::string> setting{"DEEPGEMM_NVRTC_PATH", FAKE_NVRTC_PATH};
  CHECK(std::count(info.settings.begin(), info.settings.end(), setting) == 1);
  for (const auto& [variable, value] : info.settings) CHECK_FALSE(value.empty());
  CHECK(info.driver_version == 13000);
  CHECK(info.driver_problem.empty());
  REQUIRE(info.gpus.size() == 2);
  CHECK(info.gpus[1].index == 1);
  CHECK(info.gpus[1].name == "NVIDIA H200");
  CHECK(info.gpus[1].sm_count == 132);
  CHECK(info.nvrtc_path == FAKE_NVRTC_PATH);
  CHECK(info.nvrtc_major == 13);
  CHECK(info.cache_directory == directory.path);
  CHECK(info.sources_digest.size() == 64);
  CHECK(device_count() == 2);
  CHECK(usable_device() == 0);
  CHECK(state.count("cuDevicePrimaryCtxRetain") == 0);
}
