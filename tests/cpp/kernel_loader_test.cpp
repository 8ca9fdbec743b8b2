// Memory, bundle, disk, compile, load: with the fake driver and the fake NVRTC.
#include <doctest/doctest.h>
#include <unistd.h>

#include <set>
#include <thread>
#include <utility>

#include "contains.hpp"
#include "deepgemm/error.hpp"
#include "driver/driver.hpp"
#include "fake_driver/fake_driver.hpp"
#include "jit/bundle_writer.hpp"
#include "jit/disk_cache.hpp"
#include "jit_fixture.hpp"

using namespace deepgemm;
using test::contains;
using testing::CacheDirectory;
using testing::CapturedLog;
using testing::fresh_kernel;

namespace {

fake::CudaState& state() {
  static fake::CudaState& instance = fake::use_fake_driver();
  return instance;
}

int compiles() {
  static int (*const count)() = testing::use_fake_nvrtc();
  return count();
}

jit::EntryName entry_name(const jit::KernelSpec& spec) {
  return {spec.name, jit::family_key(spec), {13, 0}};
}

std::string load_error(const jit::KernelSpec& spec, int device = 0) {
  try {
    jit::load(spec, device);
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

// The tests share one process: each sets up both fakes before its first call.
struct Fakes {
  Fakes() {
    state();
    compiles();
  }
  CacheDirectory directory;
};

// A bundle of these cubins that DEEPGEMM_BUNDLE names while it lives.
struct BundleOf {
  BundleOf(const CacheDirectory& directory,
           const std::vector<std::pair<jit::KernelSpec, std::string>>& kernels)
      : path(directory.root() + "/kernels.bundle") {
    std::vector<jit::BundleMember> members;
    for (const auto& [spec, cubin] : kernels) {
      members.push_back({spec.name, jit::family_key(spec), cubin});
    }
    REQUIRE(files::write_atomically(path, jit::encode_bundle(members, {12, 9})).empty());
    setenv("DEEPGEMM_BUNDLE", path.c_str(), 1);
  }
  ~BundleOf() { unsetenv("DEEPGEMM_BUNDLE"); }
  std::string path;
};

}  // namespace

TEST_CASE_FIXTURE(Fakes, "a stored cubin is used without NVRTC, whatever compiler made it") {
  // First in this file, while the process has found no NVRTC.
  const jit::KernelSpec spec = fresh_kernel();
  setenv("DEEPGEMM_NVRTC_PATH", "/nonexistent/libnvrtc.so.13", 1);
  CHECK(contains(load_error(spec), "is in no cache and cannot be compiled"));
  CHECK(contains(load_error(spec), "/nonexistent/libnvrtc.so.13"));
  jit::EntryName name = entry_name(spec);
  name.compiler = {12, 9};
  jit::write_entry(name, "ELF from elsewhere");
  CHECK(jit::load(spec, 0).origin == jit::Origin::disk);
  testing::use_fake_nvrtc();
}

TEST_CASE_FIXTURE(Fakes, "with a bundle nothing asks for NVRTC, and strict mode is content") {
  // As the one above: the process has found no NVRTC.
  const jit::KernelSpec spec = fresh_kernel();
  const BundleOf bundle(directory, {{spec, "ELF of the bundle"}});
  setenv("DEEPGEMM_NVRTC_PATH", "/nonexistent/libnvrtc.so.13", 1);
  setenv("DEEPGEMM_STRICT_JIT", "1", 1);
  CHECK(jit::load(spec, 0).origin == jit::Origin::bundle);
  unsetenv("DEEPGEMM_STRICT_JIT");
  testing::use_fake_nvrtc();
}

TEST_CASE_FIXTURE(Fakes, "a kernel is compiled, stored, loaded, and then found in memory") {
  jit::KernelSpec spec = fresh_kernel();
  spec.shared_bytes = 200000;
  const int before = compiles();
  const jit::LoadedKernel& kernel = jit::load(spec, 0);
  CHECK(kernel.function != nullptr);
  CHECK(kernel.origin == jit::Origin::compiled);
  CHECK(compiles() == before + 1);
  CHECK(state().shared_bytes[0] == 200000);
  CHECK(state().count("cuFuncLoad") > 0);
  CHECK(state().capture_mode_at_load == CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(&jit::load(spec, 0) == &kernel);
  CHECK(compiles() == before + 1);
  CHECK(jit::read_entry(entry_name(spec)).has_value());
}

TEST_CASE_FIXTURE(Fakes, "a second device shares the library and has its own function") {
  const jit::KernelSpec spec = fresh_kernel();
  const jit::LoadedKernel& first = jit::load(spec, 0);
  const int libraries = state().count("cuLibraryLoadData");
  const jit::LoadedKernel& second = jit::load(spec, 1);
  CHECK(state().count("cuLibraryLoadData") == libraries);
  CHECK(second.function != first.function);
  CUcontext current = nullptr;
  driver::api().CtxGetCurrent(&current);
  CHECK(current == nullptr);  // the caller's context is back
}

TEST_CASE_FIXTURE(Fakes, "get_cubin needs no driver and serves from memory afterwards") {
  const jit::KernelSpec spec = fresh_kernel();
  const int loads = state().count("cuLibraryLoadData");
  const jit::Cubin first = jit::get_cubin(spec);
  CHECK(first.origin == jit::Origin::compiled);
  const jit::Cubin second = jit::get_cubin(spec);
  CHECK(second.origin == jit::Origin::memory);
  CHECK(second.bytes == first.bytes);
  CHECK(state().count("cuLibraryLoadData") == loads);
  CHECK(jit::load(spec, 0).origin == jit::Origin::compiled);
}

TEST_CASE_FIXTURE(Fakes, "a cubin on disk is not compiled again") {
  const jit::KernelSpec spec = fresh_kernel();
  jit::write_entry(entry_name(spec), "ELF stored");
  const int before = compiles();
  const std::size_t hits = jit::cache_info().disk_hits;
  CHECK(jit::load(spec, 0).origin == jit::Origin::disk);
  CHECK(compiles() == before);
  CHECK(jit::cache_info().disk_hits == hits + 1);
}

TEST_CASE_FIXTURE(Fakes, "a stored cubin that the driver refuses is replaced, with one warning") {
  const jit::KernelSpec spec = fresh_kernel();
  jit::write_entry(entry_name(spec), "bad image, but with a good checksum");
  CapturedLog captured;
  CHECK(jit::load(spec, 0).origin == jit::Origin::compiled);
  CHECK(CapturedLog::messages().size() == 1);
  CHECK(contains(*jit::read_entry(entry_name(spec)), "ELF"));
}

TEST_CASE_FIXTURE(Fakes, "a failed compile throws the log, and the next call tries again") {
  const jit::KernelSpec spec = fresh_kernel("BROKEN");
  const int before = compiles();
  CHECK(contains(load_error(spec), "this source is BROKEN"));
  CHECK(contains(load_error(spec), spec.name));
  CHECK(compiles() == before + 2);
  CHECK_THROWS_AS(jit::load(spec, 0), CompileError);
  CHECK(directory.files().empty());
}

TEST_CASE_FIXTURE(Fakes, "a failed load is not remembered") {
  const jit::KernelSpec spec = fresh_kernel();
  for (const char* step : {"cuLibraryLoadData", "cuLibraryGetKernel", "cuFuncLoad"}) {
    state().fail(step, CUDA_ERROR_OUT_OF_MEMORY);
    const std::string error = load_error(spec);
    CHECK(contains(error, step));
    CHECK(contains(error, "CUDA_ERROR_OUT_OF_MEMORY"));
    state().heal();
  }
  const int before = compiles();
  CHECK(jit::load(spec, 0).function != nullptr);
  CHECK(compiles() == before);  // the cubin was kept
}

TEST_CASE_FIXTURE(Fakes, "an image that stays refused names driver and compiler") {
  const jit::KernelSpec spec = fresh_kernel();
  state().fail("cuLibraryLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(contains(load_error(spec), "driver for CUDA 13.0, NVRTC 13.0"));
  state().heal();
  CHECK(jit::load(spec, 0).function != nullptr);
}

TEST_CASE_FIXTURE(Fakes, "devices and shared memory are checked before anything is compiled") {
  jit::KernelSpec spec = fresh_kernel();
  const int before = compiles();
  CHECK(contains(load_error(spec, 7), "device 7 does not exist"));
  CHECK(contains(load_error(spec, -1), "device -1 does not exist"));
  spec.shared_bytes = 300000;
  CHECK(contains(load_error(spec), "needs 300000 bytes of shared memory"));
  CHECK(compiles() == before);
}

TEST_CASE_FIXTURE(Fakes, "many threads that want one kernel compile it once") {
  const jit::KernelSpec spec = fresh_kernel("SLOW");
  const int before = compiles();
  std::vector<std::thread> threads;
  std::vector<const jit::LoadedKernel*> kernels(8);
  for (auto& kernel : kernels) {
    threads.emplace_back([&kernel, &spec] { kernel = &jit::load(spec, 0); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(compiles() == before + 1);
  CHECK(std::set<const jit::LoadedKernel*>(kernels.begin(), kernels.end()).size() == 1);
}

TEST_CASE_FIXTURE(Fakes, "different kernels compile in parallel") {
  std::vector<jit::KernelSpec> specs;
  for (int i = 0; i < 8; ++i) specs.push_back(fresh_kernel("SLOW"));  // 100 ms each, asleep
  const auto began = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (const auto& spec : specs) threads.emplace_back([&spec] { jit::load(spec, 0); });
  for (std::thread& thread : threads) thread.join();
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::milliseconds(500));
}

TEST_CASE_FIXTURE(Fakes, "strict mode refuses to compile but uses the caches") {
  const jit::KernelSpec missing = fresh_kernel(), stored = fresh_kernel();
  jit::write_entry(entry_name(stored), "ELF stored");
  setenv("DEEPGEMM_STRICT_JIT", "1", 1);
  CHECK(jit::strict());
  unsetenv("DEEPGEMM_STRICT_JIT");
  CHECK_FALSE(jit::strict());
  jit::set_strict(true);
  CHECK(contains(load_error(missing), "strict mode"));
  CHECK(contains(load_error(missing), directory.path));
  CHECK(jit::load(stored, 0).origin == jit::Origin::disk);
  jit::set_strict(false);
  CHECK(jit::load(missing, 0).origin == jit::Origin::compiled);
}

TEST_CASE_FIXTURE(Fakes, "with no place for files all is in memory") {
  setenv("DEEPGEMM_CACHE_DIR", "/proc/self/no/such/place", 1);
  const jit::KernelSpec spec = fresh_kernel();
  CapturedLog captured;
  CHECK(jit::load(spec, 0).origin == jit::Origin::compiled);
  CHECK(jit::load(fresh_kernel(), 0).origin == jit::Origin::compiled);
  CHECK(CapturedLog::messages().size() == 1);
}

TEST_CASE_FIXTURE(Fakes, "DEEPGEMM_DUMP writes source and cubin, and the source of a failure") {
  const std::string dump = directory.root() + "/dump";
  setenv("DEEPGEMM_DUMP", dump.c_str(), 1);
  jit::load(fresh_kernel(), 0);
  CHECK(files::list(dump, ".cu").size() == 1);
  CHECK(files::list(dump, ".cubin").size() == 1);
  load_error(fresh_kernel("BROKEN"));
  CHECK(files::list(dump, ".cu").size() == 2);
  CHECK(files::list(dump, ".cubin").size() == 1);
  unsetenv("DEEPGEMM_DUMP");
}

TEST_CASE_FIXTURE(Fakes, "a kernel of the bundle is used before the disk, without a compile") {
  const jit::KernelSpec spec = fresh_kernel(), other = fresh_kernel();
  const BundleOf bundle(directory, {{spec, "ELF of the bundle"}});
  jit::write_entry(entry_name(spec), "ELF of the disk");
  const int before = compiles();
  const jit::CacheInfo info = jit::cache_info();
  CHECK(jit::load(spec, 0).origin == jit::Origin::bundle);
  CHECK(jit::get_cubin(spec).bytes == "ELF of the bundle");
  CHECK(compiles() == before);
  CHECK(jit::cache_info().bundle_hits == info.bundle_hits + 1);
  CHECK(jit::cache_info().disk_hits == info.disk_hits);
  CHECK(jit::cache_info().bundle_kernels == 1);
  CHECK(jit::load(other, 0).origin == jit::Origin::compiled);
  CHECK(jit::cache_info().bundle_hits == info.bundle_hits + 1);
}

TEST_CASE_FIXTURE(Fakes, "strict mode takes a bundle's kernels; an empty cache stays empty") {
  const jit::KernelSpec spec = fresh_kernel(), other = fresh_kernel();
  const BundleOf bundle(directory, {{spec, "ELF of the bundle"}});
  jit::set_strict(true);
  CHECK(jit::load(spec, 0).origin == jit::Origin::bundle);
  CHECK(contains(load_error(other), "strict mode"));
  jit::set_strict(std::nullopt);
  CHECK_FALSE(jit::directory_exists(directory.path));
}

TEST_CASE_FIXTURE(Fakes, "a bundle's cubin that the driver refuses is passed by, then the disk's") {
  const jit::KernelSpec first = fresh_kernel(), second = fresh_kernel(), third = fresh_kernel();
  const BundleOf bundle(directory, {{first, "bad image"}, {second, "bad image"}, {third, "bad"}});
  jit::write_entry(entry_name(first), "ELF of the disk");
  jit::write_entry(entry_name(third), "bad image too");
  CapturedLog captured;
  CHECK(jit::load(first, 0).origin == jit::Origin::disk);
  CHECK(CapturedLog::messages().size() == 1);
  CHECK(contains(CapturedLog::messages()[0], "refuses kernels of the bundle"));
  CHECK(jit::load(second, 0).origin == jit::Origin::compiled);
  const int before = compiles();
  CHECK(jit::load(third, 0).origin == jit::Origin::compiled);
  CHECK(compiles() == before + 1);
  CHECK(contains(*jit::read_entry(entry_name(third)), "extern"));
}

TEST_CASE_FIXTURE(Fakes, "a damaged bundle costs a compile and nothing else") {
  const jit::KernelSpec spec = fresh_kernel();
  const BundleOf bundle(directory, {{spec, "ELF of the bundle"}});
  REQUIRE(truncate(bundle.path.c_str(), 100) == 0);
  CapturedLog captured;
  CHECK(jit::load(spec, 0).origin == jit::Origin::compiled);
  CHECK(CapturedLog::messages().size() == 1);
  CHECK(jit::read_entry(entry_name(spec)).has_value());
}
