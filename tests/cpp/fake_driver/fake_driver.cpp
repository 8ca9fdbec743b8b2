// A libcuda without a GPU: two "NVIDIA H200", device memory on the host, and launches and tensor
// maps that are recorded and not run. Only what deepgemm calls is here.
#include "fake_driver.hpp"

#include <cstdlib>
#include <cstring>

using deepgemm::fake::CudaState;
using deepgemm::fake::LaunchCall;
using deepgemm::fake::PendingCopy;
using deepgemm::fake::TensorMapCall;

namespace {

thread_local std::vector<CUcontext> context_stack;
thread_local CUstreamCaptureMode capture_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

CudaState& state() {
  static CudaState& instance = *new CudaState;
  return instance;
}

bool is_quiet() { return state().quiet.load(std::memory_order_relaxed); }

// Counts the call and returns the failure that a test asked for.
CUresult record(const char* name) {
  if (is_quiet()) return CUDA_SUCCESS;
  std::lock_guard lock(state().mutex);
  ++state().calls[name];
  const auto failure = state().failures.find(name);
  return failure == state().failures.end() ? CUDA_SUCCESS : failure->second;
}

// Handles are small numbers that no one dereferences.
CUcontext context_of(CUdevice device) { return reinterpret_cast<CUcontext>(0x1000L + device); }

CUresult Init(unsigned) { return record("cuInit"); }
CUresult DriverGetVersion(int* version) {
  *version = state().version;
  return record("cuDriverGetVersion");
}
CUresult GetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKE";
  return CUDA_SUCCESS;
}
CUresult GetErrorString(CUresult error, const char** text) {
  *text = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "fake failure";
  return CUDA_SUCCESS;
}
CUresult DeviceGetCount(int* count) {
  *count = state().device_count;
  return record("cuDeviceGetCount");
}
CUresult DeviceGet(CUdevice* device, int ordinal) {
  if (ordinal < 0 || ordinal >= state().device_count) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return record("cuDeviceGet");
}
CUresult DeviceGetName(char* name, int length, CUdevice) {
  std::strncpy(name, "NVIDIA H200", static_cast<std::size_t>(length));
  return record("cuDeviceGetName");
}
CUresult DeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = 132;
      break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
      *value = 9;
      break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
      *value = 60 << 20;
      break;
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      *value = 232448;
      break;
    default:
      *value = 0;
  }
  return record("cuDeviceGetAttribute");
}

CUresult DevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  *context = context_of(device);
  return record("cuDevicePrimaryCtxRetain");
}
CUresult CtxGetCurrent(CUcontext* context) {
  *context = context_stack.empty() ? nullptr : context_stack.back();
  return record("cuCtxGetCurrent");
}
CUresult CtxPushCurrent(CUcontext context) {
  context_stack.push_back(context);
  return record("cuCtxPushCurrent");
}
CUresult CtxPopCurrent(CUcontext* context) {
  if (context_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = context_stack.back();
  context_stack.pop_back();
  return record("cuCtxPopCurrent");
}
CUresult CtxSynchronize() { return record("cuCtxSynchronize"); }

CUresult LibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                         CUlibraryOption*, void**, unsigned) {
  const CUresult result = record("cuLibraryLoadData");
  if (result != CUDA_SUCCESS) return result;
  if (std::memcmp(code, "bad", 3) == 0) return CUDA_ERROR_INVALID_IMAGE;
  std::lock_guard lock(state().mutex);
  state().capture_mode_at_load = capture_mode;
  state().images.emplace_back(static_cast<const char*>(code), 4);
  *library = reinterpret_cast<CUlibrary>(0x2000L + static_cast<long>(state().images.size()));
  return CUDA_SUCCESS;
}
CUresult LibraryGetKernel(CUkernel* kernel, CUlibrary library, const char*) {
  *kernel = reinterpret_cast<CUkernel>(library);
  return record("cuLibraryGetKernel");
}
CUresult KernelGetFunction(CUfunction* function, CUkernel kernel) {
  if (context_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *function = reinterpret_cast<CUfunction>(reinterpret_cast<std::uintptr_t>(kernel) << 16 |
                                           reinterpret_cast<std::uintptr_t>(context_stack.back()));
  return record("cuKernelGetFunction");
}
CUresult KernelSetAttribute(CUfunction_attribute which, int value, CUkernel, CUdevice device) {
  std::lock_guard lock(state().mutex);
  if (which == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    state().shared_bytes[device] = value;
  }
  return CUDA_SUCCESS;
}
CUresult FuncLoad(CUfunction) { return record("cuFuncLoad"); }

CUresult LaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                        void**) {
  if (is_quiet()) return CUDA_SUCCESS;
  const CUresult result = record("cuLaunchKernelEx");
  std::lock_guard lock(state().mutex);
  LaunchCall call{};
  call.function = function;
  call.context = context_stack.empty() ? nullptr : context_stack.back();
  call.grid = config->gridDimX * config->gridDimY * config->gridDimZ;
  call.block = config->blockDimX * config->blockDimY * config->blockDimZ;
  call.shared_bytes = config->sharedMemBytes;
  call.stream = config->hStream;
  call.attributes.assign(config->attrs, config->attrs + config->numAttrs);
  call.parameters = parameters[0];
  if (state().on_launch != nullptr) state().on_launch(call);
  state().launches.push_back(std::move(call));
  return result;
}

CUresult TensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                              void* address, const cuuint64_t* extents, const cuuint64_t* pitches,
                              const cuuint32_t* box, const cuuint32_t* element_strides,
                              CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                              CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  if (reinterpret_cast<std::uintptr_t>(map) % 64 != 0) return CUDA_ERROR_INVALID_VALUE;
  const CUresult result = record("cuTensorMapEncodeTiled");
  // The address, then a digest of everything else: maps that differ are told apart.
  std::uint64_t digest = 0xcbf29ce484222325;
  const auto add = [&](std::uint64_t word) { digest = (digest ^ word) * 0x100000001b3; };
  for (int word : {static_cast<int>(type), static_cast<int>(rank), static_cast<int>(swizzle),
                   static_cast<int>(promotion), static_cast<int>(fill)})
    add(static_cast<std::uint64_t>(word));
  for (cuuint32_t i = 0; i < rank; ++i) {
    add(extents[i]), add(box[i]), add(element_strides[i]);
    if (i > 0) add(pitches[i - 1]);
  }
  std::memset(map, 0x5a, sizeof(*map));
  std::memcpy(map, &address, sizeof(address));
  std::memcpy(map->opaque + 1, &digest, sizeof(digest));
  if (is_quiet()) return CUDA_SUCCESS;
  std::lock_guard lock(state().mutex);
  state().tensor_maps.push_back({type,
                                 rank,
                                 address,
                                 {extents, extents + rank},
                                 {pitches, pitches + rank - 1},
                                 {box, box + rank},
                                 {element_strides, element_strides + rank},
                                 interleave,
                                 swizzle,
                                 promotion,
                                 fill});
  return result;
}

CUresult TensorMapReplaceAddress(CUtensorMap* map, void* address) {
  if (reinterpret_cast<std::uintptr_t>(map) % 64 != 0) return CUDA_ERROR_INVALID_VALUE;
  std::memcpy(map, &address, sizeof(address));
  return record("cuTensorMapReplaceAddress");
}

CUresult MemAlloc(CUdeviceptr* address, std::size_t bytes) {
  const CUresult result = record("cuMemAlloc");
  if (result != CUDA_SUCCESS) return result;
  if (context_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  void* memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  if (memory == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(memory);
  ++state().allocations;
  return CUDA_SUCCESS;
}
CUresult MemFree(CUdeviceptr address) {
  std::free(reinterpret_cast<void*>(address));
  --state().allocations;
  return record("cuMemFree");
}
CUresult MemcpyHtoD(CUdeviceptr target, const void* source, std::size_t bytes) {
  std::memcpy(reinterpret_cast<void*>(target), source, bytes);
  return record("cuMemcpyHtoD");
}
CUresult MemcpyDtoH(void* target, CUdeviceptr source, std::size_t bytes) {
  std::memcpy(target, reinterpret_cast<const void*>(source), bytes);
  return record("cuMemcpyDtoH");
}
CUresult MemcpyDtoHAsync(void* target, CUdeviceptr source, std::size_t bytes, CUstream stream) {
  const CUresult result = record("cuMemcpyDtoHAsync");
  if (context_stack.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  std::lock_guard lock(state().mutex);
  state().copies.push_back({target, reinterpret_cast<const void*>(source), bytes, stream});
  return result;
}
CUresult MemsetD8(CUdeviceptr target, unsigned char value, std::size_t bytes) {
  std::memset(reinterpret_cast<void*>(target), value, bytes);
  return record("cuMemsetD8");
}
CUresult StreamSynchronize(CUstream stream) {
  const CUresult result = record("cuStreamSynchronize");
  std::lock_guard lock(state().mutex);
  state().capture_mode_at_wait = capture_mode;
  state().waited_for = stream;
  std::erase_if(state().copies, [&](const PendingCopy& copy) {
    if (copy.stream != stream) return false;
    std::memcpy(copy.target, copy.source, copy.bytes);
    state().bytes_copied = copy.bytes;
    return true;
  });
  return result;
}
CUresult StreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = state().capture_status;
  return record("cuStreamIsCapturing");
}
CUresult ThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, capture_mode);
  return record("cuThreadExchangeStreamCaptureMode");
}

template <class Function>
void* address_of(Function function) {
  return reinterpret_cast<void*>(function);
}

const std::map<std::string, void*>& entry_points() {
  static const std::map<std::string, void*> table = {
      {"cuInit", address_of(Init)},
      {"cuDriverGetVersion", address_of(DriverGetVersion)},
      {"cuGetErrorName", address_of(GetErrorName)},
      {"cuGetErrorString", address_of(GetErrorString)},
      {"cuDeviceGetCount", address_of(DeviceGetCount)},
      {"cuDeviceGet", address_of(DeviceGet)},
      {"cuDeviceGetName", address_of(DeviceGetName)},
      {"cuDeviceGetAttribute", address_of(DeviceGetAttribute)},
      {"cuDevicePrimaryCtxRetain", address_of(DevicePrimaryCtxRetain)},
      {"cuCtxGetCurrent", address_of(CtxGetCurrent)},
      {"cuCtxPushCurrent", address_of(CtxPushCurrent)},
      {"cuCtxPopCurrent", address_of(CtxPopCurrent)},
      {"cuCtxSynchronize", address_of(CtxSynchronize)},
      {"cuLibraryLoadData", address_of(LibraryLoadData)},
      {"cuLibraryGetKernel", address_of(LibraryGetKernel)},
      {"cuKernelGetFunction", address_of(KernelGetFunction)},
      {"cuKernelSetAttribute", address_of(KernelSetAttribute)},
      {"cuFuncLoad", address_of(FuncLoad)},
      {"cuLaunchKernelEx", address_of(LaunchKernelEx)},
      {"cuTensorMapEncodeTiled", address_of(TensorMapEncodeTiled)},
      {"cuTensorMapReplaceAddress", address_of(TensorMapReplaceAddress)},
      {"cuMemAlloc", address_of(MemAlloc)},
      {"cuMemFree", address_of(MemFree)},
      {"cuMemcpyHtoD", address_of(MemcpyHtoD)},
      {"cuMemcpyDtoH", address_of(MemcpyDtoH)},
      {"cuMemcpyDtoHAsync", address_of(MemcpyDtoHAsync)},
      {"cuMemsetD8", address_of(MemsetD8)},
      {"cuStreamSynchronize", address_of(StreamSynchronize)},
      {"cuStreamIsCapturing", address_of(StreamIsCapturing)},
      {"cuThreadExchangeStreamCaptureMode", address_of(ThreadExchangeStreamCaptureMode)},
  };
  return table;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT CudaState* fake_cuda_state() { return &state(); }

EXPORT CUresult cuGetProcAddress_v2(const char* symbol, void** function, int, cuuint64_t,
                                    CUdriverProcAddressQueryResult* status) {
  const auto found = entry_points().find(symbol);
  const bool present = found != entry_points().end();
  *function = present ? found->second : nullptr;
  if (status != nullptr) {
    *status = present ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}
