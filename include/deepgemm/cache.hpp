// The kernel cache, the compiler search path and strict mode: src/jit, as programs need it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "deepgemm/error.hpp"

namespace deepgemm {

struct CacheInfo {
  std::string directory;  // empty if the cache is memory only
  std::string problem;    // why it is memory only, or why new kernels cannot be written to it
  std::size_t entries = 0, bytes = 0;
  std::size_t loaded = 0, compiled = 0, disk_hits = 0, bundle_hits = 0;  // of this process
};
DEEPGEMM_API CacheInfo cache_info();
// Removes every entry of this library from the directory; returns how many.
DEEPGEMM_API std::size_t clear_cache();

struct CacheEntry {
  std::string file;
  std::string kernel;
  std::size_t bytes = 0;
  bool valid = false;
  std::string problem;
};
// With `verify`, each entry's checksum is recomputed.
DEEPGEMM_API std::vector<CacheEntry> list_cache(bool verify);

// Strict mode of the calling thread: after warm-up, a compile is an Error. Unset: as the
// environment variable DEEPGEMM_STRICT_JIT says at each use.
DEEPGEMM_API void set_strict(std::optional<bool> strict) noexcept;
DEEPGEMM_API std::optional<bool> strict_setting() noexcept;
DEEPGEMM_API bool strict() noexcept;  // what holds
// Directories that may hold libnvrtc (Python wheels), tried before the system's.
DEEPGEMM_API void set_nvrtc_search_path(std::vector<std::string> directories);

}  // namespace deepgemm
