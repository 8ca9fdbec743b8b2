#include "ops/kernel_words.hpp"

#include <doctest/doctest.h>

#include <optional>
#include <set>
#include <string>

#include "deepgemm/runtime.hpp"
#include "jit/nvrtc_compiler.hpp"
#include "jit_fixture.hpp"
#include "plan/kernel_specs.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::contains;

TEST_CASE("every kernel has words of its own") {
  std::set<std::string> seen;
  for (const KernelReport& kernel : selectable_kernels()) {
    CHECK_FALSE(kernel.config.empty());
    CHECK(seen.insert(kernel.kernel + " " + kernel.config).second);
  }
}

TEST_CASE("types, then what the heuristics say of a config") {
  device::GemmConfig config;
  config.out_type = device::ElementType::f32;
  const std::string words = ops::config_words(plan::persistent_gemm_spec(config));
  CHECK(words == "e4m3 x e4m3, out f32, 128x128x128, 4 stages, 2 consumer warpgroups");
  CHECK(ops::config_words(plan::general_grouped_spec({device::GroupSchedule::labels})) ==
        "groups by labels, 64x64 tile, FP32 FMA");
  CHECK(ops::config_words(plan::dequantize_spec()) == "any");
}

TEST_CASE("a kernel that is none of ours has no words, and messages then name its bytes") {
  jit::KernelSpec strange = testing::test_kernel("a");
  CHECK(ops::config_words(strange).empty());
  CHECK(jit::describe(strange) == "deepgemm_test_kernel (config 61)");
  strange.name = "deepgemm_fp8_gemm";  // of another size
  CHECK(ops::config_words(strange).empty());
  CHECK(jit::describe(strange) == jit::identity(strange));
}

TEST_CASE("strict mode names a kernel in words") {
  testing::CacheDirectory directory;
  jit::set_strict(true);
  const std::string text =
      test::message_of<Error>([] { jit::get_cubin(plan::general_gemm_spec()); });
  jit::set_strict(std::nullopt);
  CHECK(contains(text, "strict mode: deepgemm_general_gemm (64x64 tile, FP32 FMA) is in no cache"));
}
