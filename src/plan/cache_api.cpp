// include/deepgemm/cache.hpp over src/jit, whose own names stay internal to the library.
#include "deepgemm/cache.hpp"

#include <utility>

#include "jit/kernel.hpp"

namespace deepgemm {

CacheInfo cache_info() {
  jit::CacheInfo info = jit::cache_info();
  return {.directory = std::move(info.directory),
          .problem = std::move(info.problem),
          .entries = info.entries,
          .bytes = info.bytes,
          .loaded = info.loaded,
          .compiled = info.compiled,
          .disk_hits = info.disk_hits,
          .bundle_hits = info.bundle_hits};
}

std::size_t clear_cache() { return jit::clear_cache(); }

std::vector<CacheEntry> list_cache(bool verify) {
  std::vector<CacheEntry> entries;
  for (jit::CacheEntry& entry : jit::list_cache(verify)) {
    entries.push_back({.file = std::move(entry.file),
                       .kernel = std::move(entry.kernel),
                       .bytes = entry.bytes,
                       .valid = entry.valid,
                       .problem = std::move(entry.problem)});
  }
  return entries;
}

void set_strict(std::optional<bool> strict) noexcept { jit::set_strict(strict); }

std::optional<bool> strict_setting() noexcept { return jit::strict_setting(); }

bool strict() noexcept { return jit::strict(); }

void set_nvrtc_search_path(std::vector<std::string> directories) {
  jit::set_nvrtc_search_path(std::move(directories));
}

}  // namespace deepgemm
