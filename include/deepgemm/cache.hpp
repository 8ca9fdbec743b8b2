// The kernel cache, the compiler search path and strict mode: src/jit, as programs need it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "deepgemm/error.hpp"

namespace deepgemm {

struct CacheInfo {
  std::string directory;  // empty if the cache is memory only
  std::string problem;    // why it is memory only, or why new kernels cannot be written to it
  std::size_t entries = 0, bytes = 0;
  std::uint64_t limit = 0;  // of bytes: DEEPGEMM_CACHE_MAX_BYTES; 0 if there is none
  std::size_t loaded = 0, compiled = 0, disk_hits = 0, bundle_hits = 0;  // of this process
  std::string bundle;  // the file of compiled kernels that is looked into first; empty if none
  std::string bundle_problem;  // why it is not used
  std::size_t bundle_kernels = 0, bundle_bytes = 0;
  int bundle_nvrtc_major = 0, bundle_nvrtc_minor = 0;  // that made it
};
DEEPGEMM_API CacheInfo cache_info();
// Removes every entry of this library from the directory; returns how many.
DEEPGEMM_API std::size_t clear_cache();

struct CacheEntry {
  std::string file;
  std::string kernel;
  std::size_t bytes = 0;
  std::int64_t last_used = 0;  // seconds since 1970
  bool valid = false;
  std::string problem;
};
// With `verify`, each entry's checksum is recomputed.
DEEPGEMM_API std::vector<CacheEntry> list_cache(bool verify);
// The config of each in words, as selectable_kernels() has it. Empty where its file is none that
// this version would choose: another version's, or one that a Policy or other compiler flags asked
// for.
DEEPGEMM_API std::vector<std::string> configs_of(const std::vector<CacheEntry>& entries);

// One kernel of a bundle: a file of cubins that a program or a wheel carries, so that nothing is
// compiled where it runs.
struct BundledKernel {
  std::string kernel, config;  // as selectable_kernels() names them
  std::string family;  // the kernel's identity but for the compiler's version, 64 hex digits
  std::string origin;  // "disk" or "compiled"
  double milliseconds = 0;
  std::string cubin;
};
// selectable_kernels()[index], from the disk cache or compiled into it; needs NVRTC. Thread safe.
DEEPGEMM_API BundledKernel kernel_for_bundle(std::size_t index);
struct BundleSummary {
  std::size_t kernels = 0, bytes = 0, cubin_bytes = 0;
};
// Writes them, compressed, in any order and each once, to one file. Throws Error if it cannot be
// written.
DEEPGEMM_API BundleSummary write_bundle(const std::string& path,
                                        const std::vector<BundledKernel>& kernels);

// Strict mode of the calling thread: after warm-up, a compile is an Error. Unset: as the
// environment variable DEEPGEMM_STRICT_JIT says at each use.
DEEPGEMM_API void set_strict(std::optional<bool> strict) noexcept;
DEEPGEMM_API std::optional<bool> strict_setting() noexcept;
DEEPGEMM_API bool strict() noexcept;  // what holds
// Directories that may hold libnvrtc (Python wheels), tried before the system's.
DEEPGEMM_API void set_nvrtc_search_path(std::vector<std::string> directories);

}  // namespace deepgemm
