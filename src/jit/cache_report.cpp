// What `deepgemm cache` shows and clears.
#include <sys/stat.h>

#include "core/files.hpp"
#include "core/text.hpp"
#include "jit/bundle.hpp"
#include "jit/cubin_source.hpp"
#include "jit/disk_cache.hpp"
#include "jit/eviction.hpp"
#include "jit/kernel.hpp"

namespace deepgemm::jit {
namespace {

// The directory with entries that may be trusted; empty, with `problem`, if there is none.
std::string usable_directory(std::string& problem) {
  CacheLocation location = cache_location();
  problem = location.problem;
  if (problem.empty() && directory_exists(location.directory)) {
    problem = files::why_not_private(location.directory);
  }
  return problem.empty() ? location.directory : std::string();
}

CacheEntry inspect(const std::string& directory, const std::string& file) {
  CacheEntry entry;
  entry.file = file;
  const auto bytes = files::read(join(directory, "/", file));
  if (!bytes) {
    entry.problem = "it is no file of at most 64 MiB that can be read";
    return entry;
  }
  entry.bytes = bytes->size();
  const DecodedEntry decoded = decode_entry(*bytes);
  entry.kernel = decoded.kernel;
  entry.problem = decoded.problem;
  entry.valid = entry.problem.empty();
  return entry;
}

// "deepgemm_fp8_gemm" of "deepgemm_fp8_gemm-0123...-nvrtc13.0.deepgemm".
std::string kernel_of(const std::string& file) { return file.substr(0, file.find('-')); }

// By its name and size alone.
CacheEntry glance(const std::string& directory, const std::string& file) {
  struct stat status{};
  CacheEntry entry;
  entry.file = file;
  entry.kernel = kernel_of(file);
  entry.valid = stat(join(directory, "/", file).c_str(), &status) == 0 && S_ISREG(status.st_mode);
  if (entry.valid) {
    entry.bytes = static_cast<std::size_t>(status.st_size);
  } else {
    entry.problem = "it is no file";
  }
  return entry;
}

}  // namespace

CacheInfo cache_info() {
  CacheInfo info;
  info.directory = usable_directory(info.problem);
  if (!info.directory.empty()) {
    for (const CacheEntry& entry : list_cache(false)) {
      ++info.entries;
      info.bytes += entry.bytes;
    }
    const std::string problem = files::why_not_writable(info.directory);
    if (!problem.empty()) info.problem = join(problem, ": new kernels are kept in memory only");
  }
  info.limit = cache_limit();
  info.loaded = counters().loaded;
  info.compiled = counters().compiled;
  info.disk_hits = counters().disk_hits;
  info.bundle_hits = counters().bundle_hits;
  const BundleInfo bundle = bundle_info();
  info.bundle = bundle.path;
  info.bundle_problem = bundle.problem;
  info.bundle_kernels = bundle.kernels;
  info.bundle_bytes = bundle.bytes;
  info.bundle_nvrtc_major = bundle.compiler.major;
  info.bundle_nvrtc_minor = bundle.compiler.minor;
  return info;
}

std::size_t clear_cache() {
  std::string problem;
  const std::string directory = usable_directory(problem);
  std::size_t removed = 0;
  if (directory.empty()) return removed;
  for (const std::string& file : files::list(directory, "")) {
    const bool ours = file.ends_with(cache_suffix) || is_leftover(file);
    if (ours && files::remove(join(directory, "/", file))) ++removed;
  }
  return removed;
}

std::vector<CacheEntry> list_cache(bool verify) {
  std::string problem;
  const std::string directory = usable_directory(problem);
  std::vector<CacheEntry> entries;
  if (directory.empty()) return entries;
  for (const std::string& file : files::list(directory, cache_suffix)) {
    entries.push_back(verify ? inspect(directory, file) : glance(directory, file));
    const auto status = files::status(join(directory, "/", file));
    if (status) entries.back().last_used = status->modified / 1'000'000'000;
  }
  return entries;
}

}  // namespace deepgemm::jit
