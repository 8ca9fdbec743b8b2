// The kernel cache, strict mode and NVRTC's search path.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <vector>

#include "bindings/bind.hpp"
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
  result["loaded"] = cache.loaded;
  result["compiled"] = cache.compiled;
  result["disk_hits"] = cache.disk_hits;
  result["bundle_hits"] = cache.bundle_hits;
  return result;
}

nb::list entries(bool verify) {
  nb::list result;
  for (const CacheEntry& entry : list_cache(verify)) {
    nb::dict item;
    item["file"] = entry.file;
    item["kernel"] = entry.kernel;
    item["bytes"] = entry.bytes;
    item["valid"] = entry.valid;
    item["problem"] = entry.problem;
    result.append(item);
  }
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
             "The entries of the directory; `verify` recomputes their checksums.");
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
