// What the fake driver recorded, and how to make it fail. A test opens the same library file as the
// code under test does and asks it for fake_cuda_state().
#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace deepgemm::fake {

struct TensorMapCall {
  CUtensorMapDataType type;
  std::uint32_t rank;
  void* address;
  std::vector<std::uint64_t> extents, pitches_bytes;
  std::vector<std::uint32_t> box, element_strides;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
};

struct LaunchCall {
  CUfunction function;
  CUcontext context;  // current at the launch
  unsigned grid, block, shared_bytes;
  CUstream stream;
  std::vector<CUlaunchAttribute> attributes;
  void* parameters;
};

// A copy that its stream has not made yet.
struct PendingCopy {
  void* target;
  const void* source;
  std::size_t bytes;
  CUstream stream;
};

struct CudaState {
  std::mutex mutex;  // guards what is recorded
  // Nothing is recorded and no call fails, so that the time of a call is the library's: set by
  // FAKE_CUDA_QUIET in the environment, or by a test.
  std::atomic<bool> quiet{std::getenv("FAKE_CUDA_QUIET") != nullptr};
  std::vector<TensorMapCall> tensor_maps;
  std::vector<LaunchCall> launches;
  void (*on_launch)(const LaunchCall&) = nullptr;  // called within, while `parameters` is valid
  std::vector<std::string> images;                 // first bytes given to cuLibraryLoadData
  std::map<std::string, int> calls;                // by name, of every entry point that is counted
  std::map<std::string, CUresult> failures;        // set: the call named fails with this
  std::map<int, int> shared_bytes;                 // by device, as set by cuKernelSetAttribute
  std::atomic<CUstreamCaptureMode> capture_mode_at_load{CU_STREAM_CAPTURE_MODE_GLOBAL};
  std::atomic<CUstreamCaptureMode> capture_mode_at_wait{CU_STREAM_CAPTURE_MODE_GLOBAL};
  std::atomic<CUstreamCaptureStatus> capture_status{CU_STREAM_CAPTURE_STATUS_NONE};
  std::vector<PendingCopy> copies;  // made when their stream is waited for
  std::size_t bytes_copied = 0;     // by the last of them
  CUstream waited_for = nullptr;    // the last stream that was
  std::atomic<int> version{13000};
  std::atomic<int> device_count{2};
  std::atomic<int> allocations{0};  // alive now

  int count(const std::string& name) {
    std::lock_guard lock(mutex);
    return calls[name];
  }
  void fail(const std::string& name, CUresult result) {
    std::lock_guard lock(mutex);
    failures[name] = result;
  }
  void heal() {
    std::lock_guard lock(mutex);
    failures.clear();
  }
};

// For tests: makes the code under test use the fake, and returns its state.
inline CudaState& use_fake_driver() {
  setenv("DEEPGEMM_CUDA_DRIVER_PATH", FAKE_DRIVER_PATH, 1);
  void* library = dlopen(FAKE_DRIVER_PATH, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) std::abort();
  auto get = reinterpret_cast<CudaState* (*)()>(dlsym(library, "fake_cuda_state"));
  return *get();
}

}  // namespace deepgemm::fake
