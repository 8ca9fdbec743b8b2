// libcuda by dlopen. Success is published once through an atomic pointer, so that api() costs one
// load afterwards. A failure is remembered only for a while: a driver that is installed later, or
// another DEEPGEMM_CUDA_DRIVER_PATH, is found without restarting the process.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <string>

#include "core/env.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "driver/driver.hpp"

namespace deepgemm::driver {
namespace {

// cubins for sm_90a, clusters and tensor maps need 12.0; 12.3 is the oldest that is worth testing.
constexpr int oldest_version = 12030;

using GetProcAddress = decltype(&cuGetProcAddress_v2);

struct Failure {
  std::string path, message;
  int code = -1;
  std::chrono::steady_clock::time_point retry_at;
};

std::atomic<const Api*> loaded{nullptr};
std::mutex mutex;                       // guards `last_failure` and the loading itself
const Failure* last_failure = nullptr;  // leaked on purpose: nothing of this runs at exit

std::string library_path() {
  return env::text("DEEPGEMM_CUDA_DRIVER_PATH").value_or("libcuda.so.1");
}

std::string version_text(int version) { return join(version / 1000, ".", version % 1000 / 10); }

GetProcAddress open_library(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = dlerror();
    throw DriverError(
        join("no CUDA driver: ", why != nullptr ? why : path.c_str(),
             ". Install the NVIDIA driver (580 or newer for CUDA 13), or in a container start it "
             "with GPU support (docker run --gpus all), or compute on CPU tensors"),
        -1);
  }
  void* symbol = dlsym(library, "cuGetProcAddress_v2");
  if (symbol == nullptr) {
    dlclose(library);
    throw DriverError(join("the CUDA driver ", path, " is too old: it has no cuGetProcAddress_v2; ",
                           "need CUDA ", version_text(oldest_version), " or newer"),
                      -1);
  }
  return reinterpret_cast<GetProcAddress>(symbol);
}

template <class Function>
bool resolve(GetProcAddress get, const char* name, int version, Function& function) {
  void* address = nullptr;
  CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  const CUresult result = get(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, &status);
  if (result != CUDA_SUCCESS || status != CU_GET_PROC_ADDRESS_SUCCESS) address = nullptr;
  function = reinterpret_cast<Function>(address);
  return address != nullptr;
}

template <class Function>
void require(GetProcAddress get, const char* name, Function& function) {
  if (!resolve(get, name, oldest_version, function)) {
    throw DriverError(join("the CUDA driver has no ", name, "; need CUDA ",
                           version_text(oldest_version), " or newer"),
                      -1);
  }
}

void require_version(const Api& api) {
  if (api.version >= oldest_version) return;
  throw DriverError(join("the CUDA driver supports CUDA ", version_text(api.version), ", need ",
                         version_text(oldest_version), " or newer: update the NVIDIA driver"),
                    -1);
}

// The version that is asked for picks the ABI: at 12.3 "cuMemAlloc" is cuMemAlloc_v2, and so on,
// as the declarations of cuda.h that the table's types are taken from.
void fill_table(GetProcAddress get, Api& api) {
  require(get, "cuInit", api.Init);
  require(get, "cuDriverGetVersion", api.DriverGetVersion);
  require(get, "cuGetErrorName", api.GetErrorName);
  require(get, "cuGetErrorString", api.GetErrorString);
  if (api.DriverGetVersion(&api.version) != CUDA_SUCCESS) api.version = 0;
  require_version(api);
  require(get, "cuDeviceGetCount", api.DeviceGetCount);
  require(get, "cuDeviceGet", api.DeviceGet);
  require(get, "cuDeviceGetName", api.DeviceGetName);
  require(get, "cuDeviceGetAttribute", api.DeviceGetAttribute);
  require(get, "cuDevicePrimaryCtxRetain", api.DevicePrimaryCtxRetain);
  require(get, "cuCtxGetCurrent", api.CtxGetCurrent);
  require(get, "cuCtxPushCurrent", api.CtxPushCurrent);
  require(get, "cuCtxPopCurrent", api.CtxPopCurrent);
  require(get, "cuCtxSynchronize", api.CtxSynchronize);
  require(get, "cuLibraryLoadData", api.LibraryLoadData);
  require(get, "cuLibraryGetKernel", api.LibraryGetKernel);
  require(get, "cuKernelGetFunction", api.KernelGetFunction);
  require(get, "cuKernelSetAttribute", api.KernelSetAttribute);
  resolve(get, "cuFuncLoad", 12040, api.FuncLoad);  // optional: see driver.hpp
  require(get, "cuLaunchKernelEx", api.LaunchKernelEx);
  require(get, "cuTensorMapEncodeTiled", api.TensorMapEncodeTiled);
  require(get, "cuTensorMapReplaceAddress", api.TensorMapReplaceAddress);
  require(get, "cuMemAlloc", api.MemAlloc);
  require(get, "cuMemFree", api.MemFree);
  require(get, "cuMemcpyHtoD", api.MemcpyHtoD);
  require(get, "cuMemcpyDtoH", api.MemcpyDtoH);
  require(get, "cuMemcpyDtoHAsync", api.MemcpyDtoHAsync);
  require(get, "cuMemsetD8", api.MemsetD8);
  require(get, "cuStreamSynchronize", api.StreamSynchronize);
  require(get, "cuStreamIsCapturing", api.StreamIsCapturing);
  require(get, "cuThreadExchangeStreamCaptureMode", api.ThreadExchangeStreamCaptureMode);
}

std::string describe_result(const Api& api, CUresult result) {
  const char* name = nullptr;
  const char* text = nullptr;
  api.GetErrorName(result, &name);
  api.GetErrorString(result, &text);
  return join(name != nullptr ? name : "CUDA error", " (",
              text != nullptr ? text : "no description", ")");
}

std::string advice(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NO_DEVICE:
      return ": the driver sees no GPU (is CUDA_VISIBLE_DEVICES empty?)";
    case CUDA_ERROR_NOT_INITIALIZED:
      return ": CUDA does not survive fork(); start worker processes with \"spawn\", or fork "
             "before "
             "the first CUDA call";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return ": the kernel module and libcuda differ in version; reboot or reload the module";
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return ": is the fabric manager running?";
    default:
      return "";
  }
}

[[noreturn]] void fail(const Api& api, CUresult result, const char* what) {
  throw DriverError(join(what, ": ", describe_result(api, result), advice(result)),
                    static_cast<int>(result));
}

const Api* load(const std::string& path) {
  Api api{};
  fill_table(open_library(path), api);
  const CUresult result = api.Init(0);
  if (result != CUDA_SUCCESS) fail(api, result, "cuInit");
  log::write(log::Level::debug, join("CUDA driver ", version_text(api.version), " from ", path));
  return new Api(api);
}

// Why: a failed cuInit can take 100 ms and a failed dlopen walks every library directory, and
// callers may ask before each call. Retrying after a hundred times the cost keeps it below 1 %.
void remember(const std::string& path, const DriverError& error,
              std::chrono::steady_clock::time_point began) {
  const auto now = std::chrono::steady_clock::now();
  const auto pause =
      std::max<std::chrono::steady_clock::duration>(std::chrono::seconds(1), 100 * (now - began));
  delete last_failure;
  last_failure = new Failure{path, error.what(), error.code, now + pause};
}

// Not inlined, so that api() stays a load and a jump.
[[gnu::noinline]] const Api& load_once() {
  std::lock_guard lock(mutex);
  if (const Api* api = loaded.load(std::memory_order_acquire)) return *api;
  const std::string path = library_path();
  const auto began = std::chrono::steady_clock::now();
  if (last_failure != nullptr && last_failure->path == path && began < last_failure->retry_at) {
    throw DriverError(last_failure->message, last_failure->code);
  }
  try {
    const Api* api = load(path);
    loaded.store(api, std::memory_order_release);
    return *api;
  } catch (const DriverError& error) {
    remember(path, error, began);
    throw;
  }
}

}  // namespace

const Api& api() {
  if (const Api* table = loaded.load(std::memory_order_acquire)) return *table;
  return load_once();
}

bool available(std::string* reason) noexcept {
  try {
    api();
    return true;
  } catch (const std::exception& error) {
    try {
      if (reason != nullptr) *reason = error.what();
    } catch (...) {  // no memory for the reason: the answer still stands
    }
    return false;
  }
}

void check(CUresult result, const char* what) {
  if (result != CUDA_SUCCESS) fail(api(), result, what);
}

}  // namespace deepgemm::driver
