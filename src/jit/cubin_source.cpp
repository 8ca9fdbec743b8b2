#include "jit/cubin_source.hpp"

#include <atomic>
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

// What `find` finds, with the time that it took.
template <class Find>
std::optional<Cubin> timed(Origin origin, std::atomic<std::size_t>& hits, Find find) {
  const auto began = std::chrono::steady_clock::now();
  auto bytes = find();
  if (!bytes) return std::nullopt;
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
  ++hits;
  Cubin cubin;
  cubin.bytes = std::move(*bytes);
  cubin.origin = origin;
  cubin.milliseconds = took.count();
  return cubin;
}

std::optional<Cubin> find_stored(const KernelSpec& spec, const std::string& family,
                                 std::optional<Origin> refused) {
  if (!refused) {
    auto bundled =
        timed(Origin::bundle, counters().bundle_hits, [&] { return find_in_bundle(family); });
    if (bundled) return bundled;
  }
  if (refused == Origin::disk) return std::nullopt;
  const NvrtcInfo compiler = nvrtc_info();  // not sooner: who has a bundle need not wait for NVRTC
  return timed(Origin::disk, counters().disk_hits,
               [&] { return read_disk(spec, family, compiler); });
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

Cubin find_cubin(const KernelSpec& spec, std::optional<Origin> refused) {
  const std::string family = family_key(spec);
  if (auto stored = find_stored(spec, family, refused)) {
    dump_source(spec);
    dump_cubin(spec, *stored);
    return std::move(*stored);
  }
  refuse_if_strict(spec);
  const NvrtcInfo compiler = nvrtc_info();
  if (compiler.path.empty()) {
    throw CompileError(
        join(describe(spec), " is in no cache and cannot be compiled: ", compiler.problem), {});
  }
  return compile_and_store(spec, family, compiler);
}

Cubin compile_for_bundle(const KernelSpec& spec) {
  const std::string family = family_key(spec);
  const NvrtcInfo compiler = nvrtc_info();
  if (compiler.path.empty()) {
    throw CompileError(join("a bundle cannot be made: ", compiler.problem), {});
  }
  if (auto stored = read_entry({spec.name, family, {compiler.major, compiler.minor}})) {
    Cubin cubin;
    cubin.bytes = std::move(*stored);
    cubin.origin = Origin::disk;
    ++counters().disk_hits;
    return cubin;
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
  } catch (const std::exception&) {  // out of memory
    return false;
  }
}

}  // namespace deepgemm::jit
