// A libcuda for the modelled machine: one "SM90 model" device whose memory is the host's and whose
// kernels are shared objects made by model/compiler. Only what the library calls is here.
//
// Read at each launch: SM90_MODEL_SEED (0) and SM90_MODEL_MODE (random; eager, lazy, and
// starve:loads, starve:stores, starve:wgmma, starve:WARP).
// Read at each WGMMA: SM90_MODEL_FP8_BITS (0, exact).
// Read at first use: SM90_MODEL_SMS (6), SM90_MODEL_TRACE (a file).
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "driver/stream.hpp"
#include "machine/global.hpp"
#include "machine/machine.hpp"
#include "machine/tensor_map.hpp"
#include "settings.hpp"

namespace {

struct Kernel {
  void (*entry)(void*);
  std::size_t parameter_bytes;
};

thread_local std::vector<CUcontext> contexts;

int multiprocessors() {
  static const int count = std::max(1, std::atoi(sm90::setting("SM90_MODEL_SMS", "6").c_str()));
  return count;
}

CUresult Init(unsigned) { return CUDA_SUCCESS; }
CUresult DriverGetVersion(int* version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
CUresult GetErrorName(CUresult error, const char** name) {
  *name = error == CUDA_ERROR_LAUNCH_FAILED ? "the SM90 model stopped the kernel" : "CUDA error";
  return CUDA_SUCCESS;
}
CUresult GetErrorString(CUresult, const char** text) {
  static thread_local std::string report;
  report = sm90::last_report();
  *text = report.c_str();
  return CUDA_SUCCESS;
}
CUresult DeviceGetCount(int* count) {
  *count = 1;
  return CUDA_SUCCESS;
}
CUresult DeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
CUresult DeviceGetName(char* name, int length, CUdevice) {
  std::snprintf(name, static_cast<std::size_t>(length), "SM90 model");
  return CUDA_SUCCESS;
}
CUresult DeviceGetAttribute(int* value, CUdevice_attribute which, CUdevice) {
  switch (which) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
      *value = multiprocessors();
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
  return CUDA_SUCCESS;
}
CUresult DevicePrimaryCtxRetain(CUcontext* context, CUdevice) {
  *context = reinterpret_cast<CUcontext>(0x1000L);
  return CUDA_SUCCESS;
}
CUresult CtxGetCurrent(CUcontext* context) {
  *context = contexts.empty() ? nullptr : contexts.back();
  return CUDA_SUCCESS;
}
CUresult CtxPushCurrent(CUcontext context) {
  contexts.push_back(context);
  return CUDA_SUCCESS;
}
CUresult CtxPopCurrent(CUcontext* context) {
  if (contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = contexts.back();
  contexts.pop_back();
  return CUDA_SUCCESS;
}
CUresult result_of(bool right) { return right ? CUDA_SUCCESS : CUDA_ERROR_LAUNCH_FAILED; }
CUresult CtxSynchronize() { return result_of(sm90::synchronize()); }

// The image has no length: a shared object says where it ends, by its section table.
std::size_t image_bytes(const unsigned char* elf) {
  std::uint64_t table;
  std::uint16_t size, count;
  std::memcpy(&table, elf + 0x28, 8);
  std::memcpy(&size, elf + 0x3A, 2);
  std::memcpy(&count, elf + 0x3C, 2);
  return table + std::size_t{size} * count;
}

// Kernels find the machine's functions in this library, which was opened for its caller alone.
void show_the_machine() {
  static const bool shown = [] {
    Dl_info info;
    return dladdr(reinterpret_cast<void*>(&show_the_machine), &info) != 0 &&
           dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL) != nullptr;
  }();
  static_cast<void>(shown);
}

CUresult LibraryLoadData(CUlibrary* library, const void* code, CUjit_option*, void**, unsigned,
                         CUlibraryOption*, void**, unsigned) {
  if (std::memcmp(code, "\177ELF", 4) != 0) return CUDA_ERROR_INVALID_IMAGE;
  show_the_machine();
  std::string path = "/tmp/sm90-kernel-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  const std::size_t bytes = image_bytes(static_cast<const unsigned char*>(code));
  const bool stored = write(file, code, bytes) == static_cast<ssize_t>(bytes);
  close(file);
  void* object = stored ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  unlink(path.c_str());
  if (object == nullptr) {
    std::fprintf(stderr, "SM90 model: %s\n", dlerror());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  *library = reinterpret_cast<CUlibrary>(object);
  return CUDA_SUCCESS;
}
CUresult LibraryGetKernel(CUkernel* kernel, CUlibrary library, const char*) {
  void* object = reinterpret_cast<void*>(library);
  void* entry = dlsym(object, "sm90_entry");
  const void* bytes = dlsym(object, "sm90_parameter_bytes");
  if (entry == nullptr || bytes == nullptr) return CUDA_ERROR_NOT_FOUND;
  // Kept for the life of the process, as a loaded kernel is.
  *kernel = reinterpret_cast<CUkernel>(new Kernel{reinterpret_cast<void (*)(void*)>(entry),
                                                  *static_cast<const unsigned long*>(bytes)});
  return CUDA_SUCCESS;
}
CUresult KernelGetFunction(CUfunction* function, CUkernel kernel) {
  *function = reinterpret_cast<CUfunction>(kernel);
  return CUDA_SUCCESS;
}
CUresult KernelSetAttribute(CUfunction_attribute, int, CUkernel, CUdevice) { return CUDA_SUCCESS; }
CUresult FuncLoad(CUfunction) { return CUDA_SUCCESS; }

CUresult LaunchKernelEx(const CUlaunchConfig* config, CUfunction function, void** parameters,
                        void**) {
  const auto& kernel = *reinterpret_cast<const Kernel*>(function);
  sm90::Launch launch;
  launch.grid = static_cast<int>(config->gridDimX * config->gridDimY * config->gridDimZ);
  launch.block = static_cast<int>(config->blockDimX * config->blockDimY * config->blockDimZ);
  launch.shared_bytes = static_cast<int>(config->sharedMemBytes);
  launch.multiprocessors = multiprocessors();
  bool overlaps = false;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute& attribute = config->attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      launch.cluster = static_cast<int>(attribute.value.clusterDim.x);
    } else if (attribute.id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      overlaps = attribute.value.programmaticStreamSerializationAllowed != 0;
    }
  }
  constexpr int most_shared = 232448, most_threads = 1024, largest_cluster = 8;
  if (launch.grid < 1 || launch.block < 1 || launch.block > most_threads || launch.cluster < 1 ||
      launch.cluster > largest_cluster || launch.grid % launch.cluster != 0 ||
      launch.shared_bytes > most_shared) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return result_of(
      sm90::launch(launch, kernel.entry, parameters[0], kernel.parameter_bytes, overlaps));
}

int element_bytes(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
      return 8;
    default:
      return 4;
  }
}

int span_of(CUtensorMapSwizzle swizzle) {
  return swizzle == CU_TENSOR_MAP_SWIZZLE_128B  ? 128
         : swizzle == CU_TENSOR_MAP_SWIZZLE_64B ? 64
         : swizzle == CU_TENSOR_MAP_SWIZZLE_32B ? 32
                                                : 16;
}

// The rules of cuTensorMapEncodeTiled that can be told from its arguments.
bool is_legal(const sm90::TensorMapBytes& map, const cuuint64_t* extents, const cuuint32_t* box) {
  if (reinterpret_cast<std::uintptr_t>(map.address) % 16 != 0) return false;
  for (int i = 0; i < map.rank; ++i) {
    if (extents[i] < 1 || extents[i] > std::uint64_t{1} << 32) return false;
    if (box[i] < 1 || box[i] > 256) return false;
    if (i > 0 && (map.pitches[i - 1] % 16 != 0 || map.pitches[i - 1] >> 40 != 0)) return false;
  }
  const int inner = static_cast<int>(box[0]) * map.element_bytes;
  return inner % 16 == 0 && (map.swizzle_span == 16 || inner <= map.swizzle_span);
}

CUresult TensorMapEncodeTiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank,
                              void* address, const cuuint64_t* extents, const cuuint64_t* pitches,
                              const cuuint32_t* box, const cuuint32_t*, CUtensorMapInterleave,
                              CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                              CUtensorMapFloatOOBfill) {
  if (rank < 1 || rank > 5) return CUDA_ERROR_INVALID_VALUE;
  sm90::TensorMapBytes bytes{};
  bytes.magic = sm90::tensor_map_magic;
  bytes.address = static_cast<std::uint8_t*>(address);
  bytes.rank = static_cast<std::uint8_t>(rank);
  bytes.element_bytes = static_cast<std::uint8_t>(element_bytes(type));
  bytes.is_float = type == CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  bytes.swizzle_span = static_cast<std::uint8_t>(span_of(swizzle));
  for (cuuint32_t i = 0; i < rank; ++i) {
    bytes.extents[i] = static_cast<std::uint32_t>(std::min<cuuint64_t>(extents[i], 0xFFFFFFFF));
    bytes.box[i] = static_cast<std::uint16_t>(box[i]);
    if (i > 0) bytes.pitches[i - 1] = pitches[i - 1];
  }
  if (!is_legal(bytes, extents, box)) return CUDA_ERROR_INVALID_VALUE;
  std::memset(map, 0, sizeof(*map));
  std::memcpy(map, &bytes, sizeof(bytes));
  return CUDA_SUCCESS;
}

CUresult TensorMapReplaceAddress(CUtensorMap* map, void* address) {
  sm90::TensorMapBytes bytes{};
  std::memcpy(&bytes, map, sizeof(bytes));
  if (bytes.magic != sm90::tensor_map_magic || reinterpret_cast<std::uintptr_t>(address) % 16 != 0)
    return CUDA_ERROR_INVALID_VALUE;
  bytes.address = static_cast<std::uint8_t*>(address);
  std::memcpy(map, &bytes, sizeof(bytes));
  return CUDA_SUCCESS;
}

CUresult MemAlloc(CUdeviceptr* address, std::size_t bytes) {
  *address = sm90::allocate(bytes);
  return *address != 0 ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
CUresult MemFree(CUdeviceptr address) {
  sm90::drain();
  return sm90::release(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
CUresult MemcpyHtoD(CUdeviceptr target, const void* source, std::size_t bytes) {
  if (!sm90::synchronize()) return CUDA_ERROR_LAUNCH_FAILED;
  std::memcpy(reinterpret_cast<void*>(target), source, bytes);
  return CUDA_SUCCESS;
}
CUresult MemcpyDtoH(void* target, CUdeviceptr source, std::size_t bytes) {
  if (!sm90::synchronize()) return CUDA_ERROR_LAUNCH_FAILED;
  std::memcpy(target, reinterpret_cast<const void*>(source), bytes);
  return CUDA_SUCCESS;
}
CUresult MemcpyDtoHAsync(void* target, CUdeviceptr source, std::size_t bytes, CUstream) {
  return MemcpyDtoH(target, source, bytes);
}
CUresult MemsetD8(CUdeviceptr target, unsigned char value, std::size_t bytes) {
  if (!sm90::synchronize()) return CUDA_ERROR_LAUNCH_FAILED;
  std::memset(reinterpret_cast<void*>(target), value, bytes);
  return CUDA_SUCCESS;
}
CUresult StreamSynchronize(CUstream) { return result_of(sm90::synchronize()); }
CUresult StreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;  // the model has no graphs
  return CUDA_SUCCESS;
}
CUresult ThreadExchangeStreamCaptureMode(CUstreamCaptureMode*) { return CUDA_SUCCESS; }

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

extern "C" __attribute__((visibility("default"))) CUresult cuGetProcAddress_v2(
    const char* symbol, void** function, int, cuuint64_t, CUdriverProcAddressQueryResult* status) {
  const auto found = entry_points().find(symbol);
  const bool present = found != entry_points().end();
  *function = present ? found->second : nullptr;
  if (status != nullptr) {
    *status = present ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  }
  return CUDA_SUCCESS;
}
