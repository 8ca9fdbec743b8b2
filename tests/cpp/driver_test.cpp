// Against the fake driver. The cases run in the order of this file: the first ones see a process
// that has not loaded a driver yet.
#include "driver/driver.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "contains.hpp"
#include "fake_driver/fake_driver.hpp"

using namespace deepgemm;
using test::contains;

namespace {

fake::CudaState& fake_state() {
  static fake::CudaState& state = fake::use_fake_driver();
  return state;
}

std::string reason_with(const char* path) {
  setenv("DEEPGEMM_CUDA_DRIVER_PATH", path, 1);
  std::string reason;
  CHECK_FALSE(driver::available(&reason));
  return reason;
}

CUcontext current_context() {
  CUcontext context = nullptr;
  driver::check(driver::api().CtxGetCurrent(&context), "cuCtxGetCurrent");
  return context;
}

}  // namespace

TEST_CASE("a child that is forked before the first use starts its own driver") {
  const pid_t child = fork();
  if (child == 0) {
    fake_state();
    _exit(driver::available() && driver::device_count() == 2 ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  CHECK(status == 0);
}

TEST_CASE("without a driver the error says what to do") {
  const std::string reason = reason_with("/nonexistent/libcuda.so.1");
  CHECK(contains(reason, "/nonexistent/libcuda.so.1"));
  CHECK(contains(reason, "Install the NVIDIA driver"));
  CHECK(contains(reason, "--gpus all"));
  CHECK_THROWS_AS(driver::device_count(), DriverError);
  CHECK_THROWS_AS(driver::device(0), DriverError);
  CHECK_THROWS_AS(driver::ContextGuard(0), DriverError);
}

TEST_CASE("a library that is no driver is refused") {
  CHECK(contains(reason_with(FAKE_NVRTC_PATH), "no cuGetProcAddress_v2"));
}

TEST_CASE("a repeated failure is cheap") {
  reason_with("/nonexistent/libcuda.so.1");
  const auto began = std::chrono::steady_clock::now();
  for (int i = 0; i < 1000; ++i) CHECK_FALSE(driver::available());
  const auto took = std::chrono::steady_clock::now() - began;
  CHECK(took < std::chrono::milliseconds(200));
}

TEST_CASE("a driver that is too old is refused with both versions") {
  fake_state().version = 12020;
  const std::string reason = reason_with(FAKE_DRIVER_PATH);
  CHECK(contains(reason, "12.2"));
  CHECK(contains(reason, "12.3"));
  fake_state().version = 13000;
}

TEST_CASE("a failed cuInit is retried after a pause, and names the result") {
  // Another spelling of the path: the failure above is remembered for its own.
  const std::string path = std::string("/proc/self/root") + FAKE_DRIVER_PATH;
  fake_state().fail("cuInit", CUDA_ERROR_NO_DEVICE);
  CHECK(contains(reason_with(path.c_str()), "cuInit"));
  CHECK(contains(reason_with(path.c_str()), "sees no GPU"));
  fake_state().heal();
  CHECK_FALSE(driver::available());  // remembered
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  CHECK(driver::available());
  CHECK(driver::api().version == 13000);
}

TEST_CASE("devices are described once") {
  const driver::DeviceInfo& device = driver::device(0);
  CHECK(device.name == "NVIDIA H200");
  CHECK(device.sm_count == 132);
  CHECK(device.is_hopper());
  CHECK(device.shared_memory_per_block == 232448);
  const int queries = fake_state().count("cuDeviceGetAttribute");
  CHECK(&driver::device(0) == &device);
  CHECK(fake_state().count("cuDeviceGetAttribute") == queries);
  CHECK(driver::device_count() == 2);
}

TEST_CASE("a device that is not there is named") {
  CHECK_THROWS_WITH_AS(driver::device(5),
                       "CUDA device 5 does not exist: the driver sees 2 device(s)", DriverError);
  CHECK_THROWS_AS(driver::device(-1), ValueError);
  CHECK_THROWS_AS(driver::device(1000), ValueError);
}

TEST_CASE("the context guard pushes only if it must, and restores") {
  CHECK(current_context() == nullptr);
  {
    driver::ContextGuard outer(1);
    const CUcontext context = current_context();
    CHECK(context != nullptr);
    const int pushes = fake_state().count("cuCtxPushCurrent");
    {
      driver::ContextGuard same(1);
      CHECK(fake_state().count("cuCtxPushCurrent") == pushes);
      driver::ContextGuard other(0);
      CHECK(fake_state().count("cuCtxPushCurrent") == pushes + 1);
      CHECK(current_context() != context);
    }
    CHECK(current_context() == context);
  }
  CHECK(current_context() == nullptr);
}

TEST_CASE("the primary context is retained once by many threads") {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([i] {
      for (int j = 0; j < 100; ++j) driver::ContextGuard guard(i % 2);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(fake_state().count("cuDevicePrimaryCtxRetain") == 2);
}

TEST_CASE("a plain launch has no attributes") {
  driver::ContextGuard guard(0);
  int parameters = 0;
  const auto function = reinterpret_cast<CUfunction>(0x77);
  driver::launch(function, {.grid = 132, .block = 384, .shared_bytes = 200000}, nullptr,
                 &parameters);
  const fake::LaunchCall& call = fake_state().launches.back();
  CHECK(call.function == function);
  CHECK(call.context == current_context());
  CHECK(call.grid == 132);
  CHECK(call.block == 384);
  CHECK(call.shared_bytes == 200000);
  CHECK(call.parameters == &parameters);
  CHECK(call.attributes.empty());
}

TEST_CASE("cluster and PDL become launch attributes") {
  driver::ContextGuard guard(0);
  const auto stream = reinterpret_cast<CUstream>(0x99);
  driver::launch(nullptr, {.grid = 4, .block = 128, .cluster = 2, .pdl = true}, stream, nullptr);
  const fake::LaunchCall& call = fake_state().launches.back();
  CHECK(call.stream == stream);
  REQUIRE(call.attributes.size() == 2);
  CHECK(call.attributes[0].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
  CHECK(call.attributes[0].value.clusterDim.x == 2);
  CHECK(call.attributes[0].value.clusterDim.y == 1);
  CHECK(call.attributes[1].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
  CHECK(call.attributes[1].value.programmaticStreamSerializationAllowed == 1);
}

TEST_CASE("memory is read behind its stream and waited for, beside captures of others") {
  driver::ContextGuard guard(0);
  const auto stream = reinterpret_cast<CUstream>(0x99);
  const std::array<int, 3> sent{1, 2, 3};
  std::array<int, 3> received{};
  driver::read_memory(received.data(), sent.data(), sizeof(sent), stream);
  CHECK(received == sent);
  CHECK(fake_state().copies.empty());
  CHECK(fake_state().capture_mode_at_wait == CU_STREAM_CAPTURE_MODE_RELAXED);
  driver::check(driver::api().StreamSynchronize(stream), "cuStreamSynchronize");
  CHECK(fake_state().capture_mode_at_wait == CU_STREAM_CAPTURE_MODE_GLOBAL);
  fake_state().fail("cuStreamSynchronize", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_WITH_AS(driver::read_memory(received.data(), sent.data(), sizeof(sent), stream),
                       doctest::Contains("cuStreamSynchronize"), DriverError);
  fake_state().heal();
}

TEST_CASE("a captured stream is told from others, and from a driver that fails") {
  driver::ContextGuard guard(0);
  CHECK_FALSE(driver::is_captured(nullptr));
  for (const auto status :
       {CU_STREAM_CAPTURE_STATUS_ACTIVE, CU_STREAM_CAPTURE_STATUS_INVALIDATED}) {
    fake_state().capture_status = status;
    CHECK(driver::is_captured(nullptr));
  }
  fake_state().capture_status = CU_STREAM_CAPTURE_STATUS_NONE;
  fake_state().fail("cuStreamIsCapturing", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  CHECK(driver::is_captured(nullptr));
  fake_state().fail("cuStreamIsCapturing", CUDA_ERROR_OUT_OF_MEMORY);
  CHECK_THROWS_WITH_AS(driver::is_captured(nullptr), doctest::Contains("cuStreamIsCapturing"),
                       DriverError);
  fake_state().heal();
}

TEST_CASE("a failed call throws its name, text and code") {
  driver::ContextGuard guard(0);
  fake_state().fail("cuLaunchKernelEx", CUDA_ERROR_OUT_OF_MEMORY);
  try {
    driver::launch(nullptr, {}, nullptr, nullptr);
    FAIL("no exception");
  } catch (const DriverError& error) {
    CHECK(std::string(error.what()) ==
          "cuLaunchKernelEx: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
    CHECK(error.code == CUDA_ERROR_OUT_OF_MEMORY);
  }
  fake_state().heal();
}
