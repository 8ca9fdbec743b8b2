// include/deepgemm/cache.hpp over src/jit, whose own names stay internal to the library.
#include "deepgemm/cache.hpp"

#include <utility>

#include "core/files.hpp"
#include "core/text.hpp"
#include "jit/bundle_writer.hpp"
#include "jit/kernel.hpp"

namespace deepgemm {

CacheInfo cache_info() {
  jit::CacheInfo info = jit::cache_info();
  return {.directory = std::move(info.directory),
          .problem = std::move(info.problem),
          .entries = info.entries,
          .bytes = info.bytes,
          .limit = info.limit,
          .loaded = info.loaded,
          .compiled = info.compiled,
          .disk_hits = info.disk_hits,
          .bundle_hits = info.bundle_hits,
          .bundle = std::move(info.bundle),
          .bundle_problem = std::move(info.bundle_problem),
          .bundle_kernels = info.bundle_kernels,
          .bundle_bytes = info.bundle_bytes,
          .bundle_nvrtc_major = info.bundle_nvrtc_major,
          .bundle_nvrtc_minor = info.bundle_nvrtc_minor};
}

std::size_t clear_cache() { return jit::clear_cache(); }

std::vector<CacheEntry> list_cache(bool verify) {
  std::vector<CacheEntry> entries;
  for (jit::CacheEntry& entry : jit::list_cache(verify)) {
    entries.push_back({.file = std::move(entry.file),
                       .kernel = std::move(entry.kernel),
                       .bytes = entry.bytes,
                       .last_used = entry.last_used,
                       .valid = entry.valid,
                       .problem = std::move(entry.problem)});
  }
  return entries;
}

BundleSummary write_bundle(const std::string& path, const std::vector<BundledKernel>& kernels) {
  BundleSummary summary;
  std::vector<jit::BundleMember> members;
  for (const BundledKernel& kernel : kernels) {
    if (kernel.family.size() != 64 || kernel.cubin.empty()) {
      throw ValueError(complaint("kernels", join("a ", kernel.kernel, " without family or cubin"),
                                 "what kernel_for_bundle() returns"));
    }
    summary.cubin_bytes += kernel.cubin.size();
    members.push_back({kernel.kernel, kernel.family, kernel.cubin});
  }
  const jit::NvrtcInfo compiler = jit::nvrtc_info();
  const std::string bytes = jit::encode_bundle(members, {compiler.major, compiler.minor});
  const std::string problem = files::write_atomically(path, bytes, 0644);  // a wheel is for all
  if (!problem.empty()) throw Error(problem);
  summary.kernels = members.size();
  summary.bytes = bytes.size();
  return summary;
}

void set_strict(std::optional<bool> strict) noexcept { jit::set_strict(strict); }

std::optional<bool> strict_setting() noexcept { return jit::strict_setting(); }

bool strict() noexcept { return jit::strict(); }

void set_nvrtc_search_path(std::vector<std::string> directories) {
  jit::set_nvrtc_search_path(std::move(directories));
}

}  // namespace deepgemm
