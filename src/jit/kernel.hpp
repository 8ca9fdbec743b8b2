// From a kernel's name and config to a loaded function: memory, bundle, disk, compile, in this
// order.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace deepgemm::jit {

// What identifies a kernel. `config` is the bytes of a POD without padding; `entry` renders the
// translation unit that instantiates it and defines extern "C" __global__ `name`. The text is a
// pure function of (name, config), so that the key need not contain it.
struct KernelSpec {
  std::string name;    // "deepgemm_fp8_gemm": the function's name and the start of the file's
  std::string config;  // POD bytes
  std::string (*entry)(const KernelSpec&) = nullptr;
  int shared_bytes = 0;  // dynamic shared memory the launch will use
};

enum class Origin { memory, bundle, disk, compiled };
std::string_view name(Origin origin) noexcept;

struct Cubin {
  std::string bytes;
  std::string log;  // NVRTC's and ptxas's words; empty when read from the cache
  Origin origin = Origin::compiled;
  double milliseconds = 0;  // to compile, or to read
  std::string ptx;          // for DEEPGEMM_DUMP; else, and from the cache, empty
};

// Needs NVRTC only if the cubin is in neither cache; needs no driver. Throws CompileError.
Cubin get_cubin(const KernelSpec& spec);
// Always compiles, with ptxas -v, touching no cache: for the compile gate and `deepgemm bench jit`.
Cubin compile(const KernelSpec& spec);

struct LoadedKernel {
  CUfunction function = nullptr;     // launchable on `device`
  Origin origin = Origin::compiled;  // where it came from when it was first loaded
  double milliseconds = 0;
};
// Loaded once per process and device; the reference stays valid for ever. Thread safe: two threads
// that ask for one kernel compile it once. Throws Error in strict mode if it had to compile.
const LoadedKernel& load(const KernelSpec& spec, int device);

// Whether load() would find it loaded.
bool is_loaded(const KernelSpec& spec, int device);

// What the NVRTC search found. Never throws: `path` is empty and `problem` explains if nothing was.
struct NvrtcInfo {
  std::string path;
  int major = 0, minor = 0;
  std::string problem;  // every place tried, and what to install
};
NvrtcInfo nvrtc_info() noexcept;
// Directories that hold libnvrtc in Python wheels, given by the Python package at first use.
void set_nvrtc_search_path(std::vector<std::string> directories);

// Strict mode of this thread: after warm-up, a compile is an Error. Unset: DEEPGEMM_STRICT_JIT.
void set_strict(std::optional<bool> strict) noexcept;
std::optional<bool> strict_setting() noexcept;
bool strict() noexcept;  // what holds

struct CacheInfo {
  std::string directory;  // empty if the cache is memory only
  std::string problem;    // why it is memory only
  std::size_t entries = 0, bytes = 0;
  std::uint64_t limit = 0;  // of bytes: DEEPGEMM_CACHE_MAX_BYTES; 0 if there is none
  std::size_t loaded = 0, compiled = 0, disk_hits = 0, bundle_hits = 0;  // of this process
  std::string bundle;  // the file of compiled kernels that is looked into first; empty if none
  std::string bundle_problem;  // why it is not used
  std::size_t bundle_kernels = 0, bundle_bytes = 0;
  int bundle_nvrtc_major = 0, bundle_nvrtc_minor = 0;  // that made it
};
CacheInfo cache_info();
// Removes every entry of this library from the directory; returns how many.
std::size_t clear_cache();
struct CacheEntry {
  std::string file;
  std::string kernel;
  std::size_t bytes = 0;
  std::int64_t last_used = 0;  // seconds since 1970
  bool valid = false;
  std::string problem;
};
std::vector<CacheEntry> list_cache(bool verify);

}  // namespace deepgemm::jit
