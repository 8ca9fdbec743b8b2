// The table of this process: one entry per (name, config). The hit path takes a shared lock for the
// look-up and reads one atomic. Everything slow happens under the lock of its own entry, so that
// two threads that want one kernel compile it once and different kernels compile in parallel.
// Nothing is unloaded, at exit least of all: libcuda may be gone by then.
#include <array>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>

#include "core/log.hpp"
#include "core/text.hpp"
#include "driver/driver.hpp"
#include "jit/cubin_source.hpp"
#include "jit/kernel.hpp"
#include "jit/nvrtc_compiler.hpp"

namespace deepgemm::jit {
namespace {

struct Entry {
  std::mutex mutex;  // guards all but `loaded`
  std::optional<Cubin> cubin;
  CUlibrary library = nullptr;  // independent of contexts: one for all devices
  CUkernel kernel = nullptr;
  std::array<std::atomic<const LoadedKernel*>, driver::max_devices> loaded{};
};

struct Table {
  std::shared_mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<Entry>> entries;
};

// A step of loading that failed, or CUDA_SUCCESS.
struct Outcome {
  CUresult result = CUDA_SUCCESS;
  const char* step = "";
};

Entry& find_entry(const KernelSpec& spec) {
  static Table& table = *new Table;
  std::string key = spec.name;
  key += '\0';  // a kernel's name holds none
  key += spec.config;
  {
    std::shared_lock lock(table.mutex);
    const auto found = table.entries.find(key);
    if (found != table.entries.end()) return *found->second;
  }
  std::unique_lock lock(table.mutex);
  std::unique_ptr<Entry>& entry = table.entries[std::move(key)];
  if (!entry) entry = std::make_unique<Entry>();
  return *entry;
}

void check_device(const KernelSpec& spec, int ordinal) {
  const driver::DeviceInfo& device = driver::device(ordinal);
  if (!device.is_hopper()) {
    throw Error(join(spec.name, " is for compute capability 9.0 (Hopper); CUDA device ", ordinal,
                     " is ", device.name, " of ", device.compute_major, ".", device.compute_minor));
  }
  if (spec.shared_bytes > device.shared_memory_per_block) {
    throw Error(join(describe(spec), " needs ", spec.shared_bytes,
                     " bytes of shared memory; CUDA device ", ordinal, " allows ",
                     device.shared_memory_per_block));
  }
}

Outcome load_image(Entry& entry, const KernelSpec& spec) {
  const driver::Api& api = driver::api();
  CUresult result = api.LibraryLoadData(&entry.library, entry.cubin->bytes.data(), nullptr, nullptr,
                                        0, nullptr, nullptr, 0);
  if (result != CUDA_SUCCESS) {
    entry.library = nullptr;
    return {result, "cuLibraryLoadData"};
  }
  result = api.LibraryGetKernel(&entry.kernel, entry.library, spec.name.c_str());
  if (result != CUDA_SUCCESS) entry.kernel = nullptr;
  return {result, "cuLibraryGetKernel"};
}

Outcome load_function(Entry& entry, const KernelSpec& spec, int device, CUfunction& function) {
  const driver::Api& api = driver::api();
  CUdevice handle = 0;
  CUresult result = api.DeviceGet(&handle, device);
  if (result != CUDA_SUCCESS) return {result, "cuDeviceGet"};
  if (spec.shared_bytes > 0) {
    result = api.KernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    spec.shared_bytes, entry.kernel, handle);
    if (result != CUDA_SUCCESS) return {result, "cuKernelSetAttribute"};
    // All of L1's memory as shared memory, so that several CTAs fit an SM. A hint: its failure is
    // not ours.
    api.KernelSetAttribute(CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
                           CU_SHAREDMEM_CARVEOUT_MAX_SHARED, entry.kernel, handle);
  }
  result = api.KernelGetFunction(&function, entry.kernel);
  if (result != CUDA_SUCCESS) return {result, "cuKernelGetFunction"};
  // Why: loading is lazy, and a load at the first launch can hang beside a running NCCL kernel
  // (TransformerEngine PR 2219) and would fall into the caller's timing or capture.
  if (api.FuncLoad != nullptr) result = api.FuncLoad(function);
  return {result, "cuFuncLoad"};
}

bool blames_image(CUresult result) {
  return result == CUDA_ERROR_INVALID_IMAGE || result == CUDA_ERROR_NO_BINARY_FOR_GPU ||
         result == CUDA_ERROR_INVALID_SOURCE || result == CUDA_ERROR_INVALID_PTX ||
         result == CUDA_ERROR_UNSUPPORTED_PTX_VERSION || result == CUDA_ERROR_NOT_FOUND;
}

// Forgets the image, so that the next attempt starts from find_cubin(). It is not unloaded:
// functions of another device may come from it.
void forget_image(Entry& entry) {
  entry.library = nullptr;
  entry.kernel = nullptr;
  entry.cubin.reset();
}

[[noreturn]] void fail(const Outcome& outcome, const KernelSpec& spec) {
  const NvrtcInfo compiler = nvrtc_info();
  const int version = driver::api().version;
  std::string what =
      join(outcome.step, " of ", describe(spec), " (driver for CUDA ", version / 1000, ".",
           version % 1000 / 10, ", NVRTC ", compiler.major, ".", compiler.minor, ")");
  if (blames_image(outcome.result) && compiler.major > version / 1000) {
    what +=
        ": the driver is older than the compiler; update it, or install NVRTC of its major "
        "version (the extra deepgemm[cuda12])";
  }
  driver::check(outcome.result, what.c_str());
  throw Error(what);  // not reached: the outcome is a failure
}

Outcome attempt(Entry& entry, const KernelSpec& spec, int device, CUfunction& function) {
  if (entry.kernel == nullptr) {
    if (!entry.cubin) entry.cubin = find_cubin(spec);
    const Outcome outcome = load_image(entry, spec);
    if (outcome.result != CUDA_SUCCESS) return outcome;
  }
  return load_function(entry, spec, device, function);
}

void warn_of_refusal(const KernelSpec& spec, Origin refused) {
  if (refused == Origin::bundle) {  // most likely all of them: one line, not one for each kernel
    log::warn_once(join("the driver refuses kernels of the bundle, the first of them ",
                        describe(spec), "; they are taken from the cache or compiled. ",
                        "DEEPGEMM_BUNDLE=off does without the bundle"));
  } else {
    log::warn_once(join("the driver refuses the ", name(refused), " cubin of ", describe(spec),
                        "; it is compiled again"));
  }
}

CUfunction load_on_device(Entry& entry, const KernelSpec& spec, int device) {
  CUfunction function = nullptr;
  Outcome outcome = attempt(entry, spec, device, function);
  while (blames_image(outcome.result) && entry.cubin->origin != Origin::compiled) {
    const Origin refused = entry.cubin->origin;
    warn_of_refusal(spec, refused);
    forget_image(entry);
    entry.cubin = find_cubin(spec, refused);
    outcome = attempt(entry, spec, device, function);
  }
  if (outcome.result == CUDA_SUCCESS) return function;
  if (blames_image(outcome.result)) forget_image(entry);  // the next call compiles again
  fail(outcome, spec);
}

const LoadedKernel* load_slowly(Entry& entry, const KernelSpec& spec, int device) {
  const auto began = std::chrono::steady_clock::now();
  check_device(spec, device);
  driver::ContextGuard guard(device);
  driver::RelaxedCapture relaxed;
  LoadedKernel kernel;
  kernel.function = load_on_device(entry, spec, device);
  kernel.origin = entry.cubin->origin;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  kernel.milliseconds = took.count();
  ++counters().loaded;
  return new LoadedKernel(kernel);
}

}  // namespace

std::string_view name(Origin origin) noexcept {
  switch (origin) {
    case Origin::memory:
      return "memory";
    case Origin::bundle:
      return "bundle";
    case Origin::disk:
      return "disk";
    case Origin::compiled:
      return "compiled";
  }
  return "";
}

Cubin get_cubin(const KernelSpec& spec) {
  Entry& entry = find_entry(spec);
  std::lock_guard lock(entry.mutex);
  if (entry.cubin) return {entry.cubin->bytes, {}, Origin::memory, 0, {}};
  entry.cubin = find_cubin(spec);
  return *entry.cubin;
}

bool is_loaded(const KernelSpec& spec, int device) {
  return device >= 0 && device < driver::max_devices &&
         find_entry(spec).loaded[static_cast<std::size_t>(device)].load() != nullptr;
}

const LoadedKernel& load(const KernelSpec& spec, int device) {
  if (device < 0 || device >= driver::max_devices) driver::device(device);  // throws
  Entry& entry = find_entry(spec);
  auto& slot = entry.loaded[static_cast<std::size_t>(device)];
  if (const LoadedKernel* kernel = slot.load(std::memory_order_acquire)) return *kernel;
  std::lock_guard lock(entry.mutex);
  if (const LoadedKernel* kernel = slot.load(std::memory_order_acquire)) return *kernel;
  const LoadedKernel* kernel = load_slowly(entry, spec, device);
  slot.store(kernel, std::memory_order_release);
  return *kernel;
}

}  // namespace deepgemm::jit
