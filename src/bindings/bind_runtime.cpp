// What was found on this machine, and waiting for it.

#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "bindings/scalars.hpp"
#include "deepgemm/device_memory.hpp"
#include "deepgemm/runtime.hpp"

namespace deepgemm::bindings {
namespace {

using namespace nb::literals;

nb::dict to_dict(const GpuInfo& gpu) {
  nb::dict result;
  result["index"] = gpu.index;
  result["name"] = gpu.name;
  result["sm_count"] = gpu.sm_count;
  result["compute_capability"] = nb::make_tuple(gpu.compute_major, gpu.compute_minor);
  result["l2_bytes"] = gpu.l2_bytes;
  return result;
}

nb::dict runtime() {
  RuntimeInfo info;
  {
    const GilReleased released;
    info = runtime_info();
  }
  nb::list gpus;
  for (const GpuInfo& gpu : info.gpus) gpus.append(to_dict(gpu));
  nb::dict result;
  result["version"] = info.version;
  result["driver_version"] = info.driver_version;
  result["driver_problem"] = info.driver_problem;
  result["gpus"] = gpus;
  result["nvrtc_path"] = info.nvrtc_path;
  result["nvrtc_version"] = nb::make_tuple(info.nvrtc_major, info.nvrtc_minor);
  result["nvrtc_problem"] = info.nvrtc_problem;
  result["cache_directory"] = info.cache_directory;
  result["cache_problem"] = info.cache_problem;
  result["sources_digest"] = info.sources_digest;
  nb::dict settings;
  for (const auto& [variable, value] : info.settings) settings[variable.c_str()] = value;
  result["settings"] = settings;
  return result;
}

void synchronize(nb::handle named) {
  const int device = parse_int(named, "device");
  const GilReleased released;
  synchronize_device(device);
}

}  // namespace

void bind_runtime(nb::module_& module) {
  module.def("runtime_info", &runtime, nb::sig("def runtime_info() -> dict[str, typing.Any]"),
             "Looks at driver, devices, NVRTC and cache; creates no context, never raises.");
  module.def(
      "device_count", [] { return device_count(); },
      "Usable CUDA devices; 0 without a driver. Creates no context.");
  module.def("synchronize", &synchronize, "device"_a.none() = 0,
             nb::sig("def synchronize(device: int = 0) -> None"),
             "Waits for all work of the device.");
}

}  // namespace deepgemm::bindings
