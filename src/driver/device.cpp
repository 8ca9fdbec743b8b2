// Devices and their primary contexts. Both are kept per ordinal in arrays of atomics: the hot path
// reads one pointer and takes no lock. Nothing is released at exit, when libcuda may be gone.
#include <array>
#include <atomic>
#include <mutex>

#include "core/text.hpp"
#include "driver/driver.hpp"

namespace deepgemm::driver {
namespace {

std::array<std::atomic<const DeviceInfo*>, max_devices> devices{};
std::array<std::atomic<CUcontext>, max_devices> primary_contexts{};
std::mutex retain_mutex;

void check_ordinal(int ordinal) {
  if (ordinal >= 0 && ordinal < max_devices) return;
  throw ValueError(
      join("CUDA device ", ordinal, " does not exist: ordinals are 0 to ", max_devices - 1));
}

CUdevice handle(int ordinal) {
  CUdevice device = 0;
  const CUresult result = api().DeviceGet(&device, ordinal);
  if (result == CUDA_ERROR_INVALID_DEVICE) {
    throw DriverError(join("CUDA device ", ordinal, " does not exist: the driver sees ",
                           device_count(), " device(s)"),
                      static_cast<int>(result));
  }
  check(result, "cuDeviceGet");
  return device;
}

int attribute(CUdevice device, CUdevice_attribute which) {
  int value = 0;
  check(api().DeviceGetAttribute(&value, which, device), "cuDeviceGetAttribute");
  return value;
}

DeviceInfo query(int ordinal) {
  const CUdevice device = handle(ordinal);
  char name[256] = {};
  check(api().DeviceGetName(name, sizeof(name) - 1, device), "cuDeviceGetName");
  DeviceInfo info;
  info.ordinal = ordinal;
  info.name = name;
  info.sm_count = attribute(device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  info.compute_major = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  info.compute_minor = attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  info.l2_bytes = attribute(device, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
  info.shared_memory_per_block =
      attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  return info;
}

CUcontext primary_context(int ordinal) {
  check_ordinal(ordinal);
  auto& slot = primary_contexts[static_cast<std::size_t>(ordinal)];
  if (CUcontext context = slot.load(std::memory_order_acquire)) return context;
  std::lock_guard lock(retain_mutex);
  if (CUcontext context = slot.load(std::memory_order_acquire)) return context;
  CUcontext context = nullptr;
  check(api().DevicePrimaryCtxRetain(&context, handle(ordinal)), "cuDevicePrimaryCtxRetain");
  slot.store(context, std::memory_order_release);
  return context;
}

}  // namespace

int device_count() {
  int count = 0;
  const CUresult result = api().DeviceGetCount(&count);
  if (result == CUDA_ERROR_NO_DEVICE) return 0;
  check(result, "cuDeviceGetCount");
  return count;
}

const DeviceInfo& device(int ordinal) {
  check_ordinal(ordinal);
  auto& slot = devices[static_cast<std::size_t>(ordinal)];
  if (const DeviceInfo* info = slot.load(std::memory_order_acquire)) return *info;
  auto* mine = new DeviceInfo(query(ordinal));
  const DeviceInfo* theirs = nullptr;
  if (slot.compare_exchange_strong(theirs, mine, std::memory_order_acq_rel)) return *mine;
  delete mine;  // another thread asked at the same time and was first
  return *theirs;
}

ContextGuard::ContextGuard(int ordinal) {
  const CUcontext wanted = primary_context(ordinal);
  CUcontext current = nullptr;
  check(api().CtxGetCurrent(&current), "cuCtxGetCurrent");
  if (current == wanted) return;
  check(api().CtxPushCurrent(wanted), "cuCtxPushCurrent");
  pushed_ = true;
}

ContextGuard::~ContextGuard() {
  if (!pushed_) return;
  CUcontext popped = nullptr;
  api().CtxPopCurrent(&popped);  // cannot throw: the table was loaded by the constructor
}

}  // namespace deepgemm::driver
