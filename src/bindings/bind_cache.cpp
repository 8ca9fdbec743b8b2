// The kernel cache, strict mode and NVRTC's search path.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "bindings/scalars.hpp"
#include "deepgemm/cache.hpp"

namespace deepgemm::bindings {
namespace {

using namespace nb::literals;

nb::dict info() {
  const CacheInfo cache = cache_info();
  nb::dict result;
  result["directory"] = cache.directory;
  result["problem"] = cache.problem;
  result["entries"] = cache.entries;
  result["bytes"] = cache.bytes;
  result["limit"] = cache.limit;
  result["loaded"] = cache.loaded;
  result["compiled"] = cache.compiled;
  result["disk_hits"] = cache.disk_hits;
  result["bundle_hits"] = cache.bundle_hits;
  result["bundle"] = cache.bundle;
  result["bundle_problem"] = cache.bundle_problem;
  result["bundle_kernels"] = cache.bundle_kernels;
  result["bundle_bytes"] = cache.bundle_bytes;
  result["bundle_nvrtc_version"] =
      nb::make_tuple(cache.bundle_nvrtc_major, cache.bundle_nvrtc_minor);
  return result;
}

nb::list entries(bool verify) {
  nb::list result;
  const std::vector<CacheEntry> all = list_cache(verify);
  const std::vector<std::string> configs = configs_of(all);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const CacheEntry& entry = all[i];
    nb::dict item;
    item["file"] = entry.file;
    item["kernel"] = entry.kernel;
    item["config"] = configs[i];
    item["bytes"] = entry.bytes;
    item["last_used"] = entry.last_used;
    item["valid"] = entry.valid;
    item["problem"] = entry.problem;
    result.append(item);
  }
  return result;
}

nb::dict bundled_kernel(std::size_t index) {
  BundledKernel kernel;
  {
    const GilReleased released;
    kernel = kernel_for_bundle(index);
  }
  nb::dict result;
  result["kernel"] = kernel.kernel;
  result["config"] = kernel.config;
  result["family"] = kernel.family;
  result["origin"] = kernel.origin;
  result["milliseconds"] = kernel.milliseconds;
  result["cubin"] = nb::bytes(kernel.cubin.data(), kernel.cubin.size());
  return result;
}

nb::dict write(const std::string& path, const nb::list& kernels) {
  std::vector<BundledKernel> given;
  for (const nb::handle item : kernels) {
    const auto kernel = nb::cast<nb::dict>(item);
    const auto cubin = nb::cast<nb::bytes>(kernel["cubin"]);
    BundledKernel one;
    one.kernel = nb::cast<std::string>(kernel["kernel"]);
    one.family = nb::cast<std::string>(kernel["family"]);
    one.cubin.assign(cubin.c_str(), cubin.size());
    given.push_back(std::move(one));
  }
  BundleSummary summary;
  {
    const GilReleased released;
    summary = write_bundle(path, given);
  }
  nb::dict result;
  result["kernels"] = summary.kernels;
  result["bytes"] = summary.bytes;
  result["cubin_bytes"] = summary.cubin_bytes;
  return result;
}

// Why here: whoever imports this module first, NVRTC's wheels are known before anything compiles.
void find_wheels() {
  const nb::object search = nb::module_::import_("deepgemm._nvrtc_path").attr("directories");
  set_nvrtc_search_path(nb::cast<std::vector<std::string>>(search()));
}

}  // namespace

void bind_cache(nb::module_& module) {
  module.def("cache_info", &info, nb::sig("def cache_info() -> dict[str, typing.Any]"),
             "Directory, its entries and bytes, and this process's hits and compiles.");
  module.def("clear_cache", &clear_cache, "Removes this library's entries; returns how many.");
  module.def("list_cache", &entries, "verify"_a = false,
             nb::sig("def list_cache(verify: bool = False) -> list[dict[str, typing.Any]]"),
             "The entries of the directory, with the config in words of those that this version\n"
             "would choose; `verify` recomputes their checksums.");
  module.def("kernel_for_bundle", &bundled_kernel, "index"_a,
             nb::sig("def kernel_for_bundle(index: int) -> dict[str, typing.Any]"),
             "One of selectable_kernels(), from the disk cache or compiled into it.");
  module.def("write_bundle", &write, "path"_a, "kernels"_a,
             nb::sig("def write_bundle(path: str, kernels: list[dict[str, typing.Any]]) -> "
                     "dict[str, int]"),
             "Writes what kernel_for_bundle() returned to one compressed file.");
  module.def(
      "set_strict",
      [](nb::handle strict) { set_strict(parse_optional_flag(strict, "strict_jit")); },
      "strict"_a.none(), nb::sig("def set_strict(strict: bool | None) -> None"),
      "Whether a compile is an Error in this thread; None: as the environment says.");
  module.def("strict_setting", &strict_setting, "What set_strict() was last given here.");
  module.def("strict", &strict, "Whether strict mode is on.");
  module.def("set_nvrtc_search_path", &set_nvrtc_search_path, "directories"_a,
             "Directories that may hold libnvrtc.");
  find_wheels();
}

}  // namespace deepgemm::bindings
