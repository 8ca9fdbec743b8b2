#include "jit/cubin_source.hpp"

#include <chrono>
#include <optional>
#include <utility>

#include "core/env.hpp"
#include "core/log.hpp"
#include "core/text.hpp"
#include "deepgemm/error.hpp"
#include "jit/bundle.hpp"
#include "jit/disk_cache.hpp"
#include "jit/dump.hpp"
#include "jit/kernel_key.hpp"
#include "jit/nvrtc_compiler.hpp"

namespace deepgemm::jit {
namespace {

thread_local std::optional<bool> strictness;

std::optional<std::string> read_disk(const KernelSpec& spec, const std::string& family,
                                     const NvrtcInfo& compiler) {
  if (!compiler.path.empty()) {
    return read_entry({spec.name, family, {compiler.major, compiler.minor}});
  }
  // Without NVRTC nothing better can be made, so a cubin of any version will do.
  for (const CompilerVersion version : stored_versions(spec.name, family)) {
    if (auto bytes = read_entry({spec.name, family, version})) return bytes;
  }
  return std::nullopt;
}

std::optional<Cubin> find_stored(const KernelSpec& spec, const std::string& family,
                                 const NvrtcInfo& compiler) {
  const auto began = std::chrono::steady_clock::now();
  Cubin cubin;
  if (auto bundled = find_in_bundle(spec.name, family)) {
    cubin.bytes = std::move(*bundled);
    cubin.origin = Origin::bundle;
    ++counters().bundle_hits;
  } else if (auto stored = read_disk(spec, family, compiler)) {
    cubin.bytes = std::move(*stored);
    cubin.origin = Origin::disk;
    ++counters().disk_hits;
  } else {
    return std::nullopt;
  }
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  cubin.milliseconds = took.count();
  return cubin;
}

void refuse_if_strict(const KernelSpec& spec) {
  if (!strict()) return;
  const CacheLocation location = cache_location();
  throw Error(join("strict mode: ", describe(spec), " is in no cache (",
                   location.directory.empty() ? location.problem : location.directory,
                   ") and may not be compiled now; prepare it during warm-up"));
}

Cubin compile_and_store(const KernelSpec& spec, const std::string& family,
                        const NvrtcInfo& compiler) {
  dump_source(spec);  // before the compile, to be there if it fails
  Cubin cubin = compile_with_nvrtc(spec, false);
  ++counters().compiled;
  log::write(log::Level::info, join("compiled ", describe(spec), " in ",
                                    static_cast<std::int64_t>(cubin.milliseconds), " ms"));
  dump_cubin(spec, cubin);
  cubin.ptx.clear();
  write_entry({spec.name, family, {compiler.major, compiler.minor}}, cubin.bytes);
  return cubin;
}

}  // namespace

Counters& counters() noexcept {
  static Counters instance;
  return instance;
}

Cubin find_cubin(const KernelSpec& spec, bool recompile) {
  const std::string family = family_key(spec);
  const NvrtcInfo compiler = nvrtc_info();
  if (!recompile) {
    if (auto stored = find_stored(spec, family, compiler)) {
      dump_source(spec);
      dump_cubin(spec, *stored);
      return std::move(*stored);
    }
  }
  refuse_if_strict(spec);
  if (compiler.path.empty()) {
    throw CompileError(
        join(describe(spec), " is in no cache and cannot be compiled: ", compiler.problem), {});
  }
  return compile_and_store(spec, family, compiler);
}

Cubin compile(const KernelSpec& spec) { return compile_with_nvrtc(spec, true); }

void set_strict(std::optional<bool> strict) noexcept { strictness = strict; }

std::optional<bool> strict_setting() noexcept { return strictness; }

bool strict() noexcept {
  if (strictness) return *strictness;
  try {
    return env::flag("DEEPGEMM_STRICT_JIT", false);
  } catch (const std::exception& error) {
    log::warn_once(error.what());
    return false;
  }
}

}  // namespace deepgemm::jit
