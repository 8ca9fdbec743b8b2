// The CUDA driver, reached by dlopen and a function table; nothing of CUDA is linked.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "deepgemm/error.hpp"

namespace deepgemm::driver {

// Every driver entry point that the library uses, resolved once through cuGetProcAddress.
struct Api {
  decltype(&cuInit) Init;
  decltype(&cuDriverGetVersion) DriverGetVersion;
  decltype(&cuGetErrorName) GetErrorName;
  decltype(&cuGetErrorString) GetErrorString;
  decltype(&cuDeviceGetCount) DeviceGetCount;
  decltype(&cuDeviceGet) DeviceGet;
  decltype(&cuDeviceGetName) DeviceGetName;
  decltype(&cuDeviceGetAttribute) DeviceGetAttribute;
  decltype(&cuDevicePrimaryCtxRetain) DevicePrimaryCtxRetain;
  decltype(&cuCtxGetCurrent) CtxGetCurrent;
  decltype(&cuCtxPushCurrent) CtxPushCurrent;
  decltype(&cuCtxPopCurrent) CtxPopCurrent;
  decltype(&cuCtxSynchronize) CtxSynchronize;
  decltype(&cuLibraryLoadData) LibraryLoadData;
  decltype(&cuLibraryGetKernel) LibraryGetKernel;
  decltype(&cuKernelGetFunction) KernelGetFunction;
  decltype(&cuKernelSetAttribute) KernelSetAttribute;
  decltype(&cuFuncLoad) FuncLoad;  // CUDA 12.4; null before, then the first launch loads
  decltype(&cuLaunchKernelEx) LaunchKernelEx;
  decltype(&cuTensorMapEncodeTiled) TensorMapEncodeTiled;
  decltype(&cuTensorMapReplaceAddress) TensorMapReplaceAddress;
  decltype(&cuMemAlloc) MemAlloc;
  decltype(&cuMemFree) MemFree;
  decltype(&cuMemcpyHtoD) MemcpyHtoD;
  decltype(&cuMemcpyDtoH) MemcpyDtoH;
  decltype(&cuMemcpyDtoHAsync) MemcpyDtoHAsync;
  decltype(&cuMemsetD8) MemsetD8;
  decltype(&cuStreamSynchronize) StreamSynchronize;
  decltype(&cuStreamIsCapturing) StreamIsCapturing;
  decltype(&cuThreadExchangeStreamCaptureMode) ThreadExchangeStreamCaptureMode;
  int version = 0;  // as cuDriverGetVersion: 13000
};

// Loads libcuda on first use and calls cuInit; throws DriverError that says what to install.
// DEEPGEMM_CUDA_DRIVER_PATH names another library (tests use a fake one).
const Api& api();
// Whether api() would succeed; `reason` gets the explanation if not. Never throws.
bool available(std::string* reason = nullptr) noexcept;
// Throws DriverError "<what>: CUDA_ERROR_X (<text>)" unless `result` is CUDA_SUCCESS.
void check(CUresult result, const char* what);

struct DeviceInfo {
  int ordinal = 0;
  std::string name;
  int sm_count = 0;
  int compute_major = 0, compute_minor = 0;
  std::int64_t l2_bytes = 0;
  std::int64_t shared_memory_per_block = 0;  // opt-in maximum
  bool is_hopper() const { return compute_major == 9 && compute_minor == 0; }
};

// Ordinals are below this; tables per device are arrays of this size.
inline constexpr int max_devices = 64;
int device_count();
// Cached per ordinal for the life of the process.
const DeviceInfo& device(int ordinal);

// Makes the device's primary context current for the scope, if it is not already.
class ContextGuard {
 public:
  explicit ContextGuard(int ordinal);
  ~ContextGuard();
  ContextGuard(const ContextGuard&) = delete;
  ContextGuard& operator=(const ContextGuard&) = delete;

 private:
  bool pushed_ = false;
};

// Loading and waiting inside another thread's or our own stream capture would invalidate it;
// relaxed mode lets this thread make such calls meanwhile.
class RelaxedCapture {
 public:
  RelaxedCapture();
  ~RelaxedCapture();
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// Whether the stream cannot be waited for because a CUDA graph captures it or, of the legacy
// default stream, another one that it would have to wait for. The context must be current.
bool is_captured(CUstream stream);
// Copies to the host what the work that is on the stream now leaves in the memory, and waits for
// it. The context must be current, and the stream not captured.
void read_memory(void* host, const void* device_memory, std::size_t bytes, CUstream stream);

struct LaunchShape {
  unsigned grid = 1;
  unsigned block = 1;
  unsigned cluster = 1;
  unsigned shared_bytes = 0;
  bool pdl = false;  // programmatic stream serialisation
};

// A launch with its config and attributes filled in once, for calls that repeat.
class Launch {
 public:
  Launch() = default;
  Launch(CUfunction function, const LaunchShape& shape);
  // With one parameter struct passed by value. The context must be current.
  void run(CUstream stream, void* parameters) const;

 private:
  CUfunction function_ = nullptr;
  CUlaunchConfig config_{};
  CUlaunchAttribute attributes_[2]{};
};
// The same for one that does not.
void launch(CUfunction function, const LaunchShape& shape, CUstream stream, void* parameters);

}  // namespace deepgemm::driver
