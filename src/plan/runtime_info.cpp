// What was found on this machine, for `deepgemm info` and bug reports.
#include <exception>
#include <utility>

#include "core/env.hpp"
#include "deepgemm/runtime.hpp"
#include "driver/driver.hpp"
#include "jit/embedded_sources.hpp"
#include "jit/kernel.hpp"

namespace deepgemm {
namespace {

GpuInfo gpu(int ordinal) {
  const driver::DeviceInfo& device = driver::device(ordinal);
  GpuInfo info;
  info.index = ordinal;
  info.name = device.name;
  info.sm_count = device.sm_count;
  info.compute_major = device.compute_major;
  info.compute_minor = device.compute_minor;
  info.l2_bytes = device.l2_bytes;
  return info;
}

void fill_driver(RuntimeInfo& info) {
  try {
    info.driver_version = driver::api().version;
    for (int i = 0; i < driver::device_count(); ++i) info.gpus.push_back(gpu(i));
  } catch (const std::exception& error) {
    info.driver_problem = error.what();
  }
}

void fill_compiler(RuntimeInfo& info) {
  jit::NvrtcInfo nvrtc = jit::nvrtc_info();
  info.nvrtc_path = std::move(nvrtc.path);
  info.nvrtc_major = nvrtc.major;
  info.nvrtc_minor = nvrtc.minor;
  info.nvrtc_problem = std::move(nvrtc.problem);
  jit::CacheInfo cache = jit::cache_info();
  info.cache_directory = std::move(cache.directory);
  info.cache_problem = std::move(cache.problem);
  info.sources_digest = jit::embedded_sources_digest();
}

}  // namespace

RuntimeInfo runtime_info() noexcept {
  RuntimeInfo info;
  try {
    info.version = DEEPGEMM_VERSION;
    fill_driver(info);
    fill_compiler(info);
    for (const env::Setting& setting : env::settings()) {
      if (auto value = env::text(setting.variable))
        info.settings.emplace_back(setting.variable, std::move(*value));
    }
  } catch (...) {  // out of memory: what was found so far
  }
  return info;
}

int usable_device() noexcept {
  try {
    return driver::device_count() > 0 && driver::device(0).is_hopper() ? 0 : -1;
  } catch (...) {
    return -1;
  }
}

int device_count() noexcept {
  try {
    return driver::device_count();
  } catch (...) {
    return 0;
  }
}

}  // namespace deepgemm
