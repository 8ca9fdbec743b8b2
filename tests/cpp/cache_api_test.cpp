#include "deepgemm/cache.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "deepgemm/runtime.hpp"
#include "jit/disk_cache.hpp"
#include "jit_fixture.hpp"

using namespace deepgemm;

namespace {

void write_one(const std::string& config) {
  jit::write_entry({"deepgemm_test_kernel", jit::family_key(testing::test_kernel(config)), {13, 0}},
                   "ELF, not really");
}

}  // namespace

TEST_CASE("the cache is counted, listed and cleared") {
  testing::CacheDirectory directory;
  write_one("a");
  write_one("b");
  const CacheInfo info = cache_info();
  CHECK(info.directory == directory.path);
  CHECK(info.problem.empty());
  CHECK(info.entries == 2);
  CHECK(info.bytes > 0);
  const std::vector<CacheEntry> entries = list_cache(true);
  REQUIRE(entries.size() == 2);
  for (const CacheEntry& entry : entries) {
    CHECK(entry.valid);
    CHECK(entry.problem.empty());
    CHECK(entry.kernel.find("deepgemm_test_kernel") != std::string::npos);
    CHECK(entry.bytes > 0);
  }
  CHECK(clear_cache() == 2);
  CHECK(cache_info().entries == 0);
  CHECK(list_cache(false).empty());
}

TEST_CASE("strict mode has three states") {
  setenv("DEEPGEMM_STRICT_JIT", "1", 1);
  CHECK_FALSE(strict_setting().has_value());
  CHECK(strict());
  set_strict(false);
  CHECK(strict_setting() == false);
  CHECK_FALSE(strict());
  set_strict(std::nullopt);
  CHECK(strict());
  setenv("DEEPGEMM_STRICT_JIT", "0", 1);
  CHECK_FALSE(strict());
  set_strict(true);
  CHECK(strict());
  set_strict(std::nullopt);
  unsetenv("DEEPGEMM_STRICT_JIT");
  CHECK_FALSE(strict());
}

TEST_CASE("the compiler is found in a directory of the search path, past one that is not there") {
  unsetenv("DEEPGEMM_NVRTC_PATH");
  testing::CacheDirectory directory;
  const std::string library = directory.root() + "/libnvrtc.so.13";
  REQUIRE(symlink(FAKE_NVRTC_PATH, library.c_str()) == 0);
  set_nvrtc_search_path({"/nonexistent", directory.root()});
  CHECK(runtime_info().nvrtc_path == library);
  set_nvrtc_search_path({});
}

TEST_CASE("entries of kernels that this version would choose have their config in words") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  write_one("a");
  const BundledKernel kernel = kernel_for_bundle(5);
  const std::vector<CacheEntry> entries = list_cache(false);
  const std::vector<std::string> configs = configs_of(entries);
  REQUIRE(entries.size() == 2);
  REQUIRE(configs.size() == 2);
  for (std::size_t i = 0; i < 2; ++i) {
    const bool ours = entries[i].kernel == kernel.kernel;
    CHECK(configs[i] == (ours ? kernel.config : ""));
  }
  CHECK_FALSE(kernel.config.empty());
  CHECK(configs[0] != configs[1]);
  CHECK(configs_of({}).empty());
  CacheEntry strange;
  strange.file = "nonsense";
  CHECK(configs_of({strange}) == std::vector<std::string>{""});
}
