#include "jit/kernel_key.hpp"

#include <doctest/doctest.h>

#include "jit_fixture.hpp"

using namespace deepgemm;
using testing::test_kernel;

TEST_CASE("a key is 64 hex digits and does not change between calls") {
  const std::string family = jit::family_key(test_kernel("a"));
  CHECK(family.size() == 64);
  CHECK(family.find_first_not_of("0123456789abcdef") == std::string::npos);
  CHECK(family == jit::family_key(test_kernel("a")));
  CHECK(jit::kernel_key(family, {13, 0}).size() == 64);
}

TEST_CASE("name, config and their border are in the key") {
  jit::KernelSpec first = test_kernel("c"), second = test_kernel("bc");
  first.name = std::string("ab");
  second.name = std::string("a");
  CHECK(jit::family_key(first) != jit::family_key(second));
  CHECK(jit::family_key(test_kernel("a")) != jit::family_key(test_kernel("b")));
  CHECK(jit::family_key(test_kernel("a")) != jit::family_key(test_kernel(std::string("a\0", 2))));
}

TEST_CASE("the compiler's version is in the key") {
  const std::string family = jit::family_key(test_kernel("a"));
  CHECK(jit::kernel_key(family, {13, 0}) != jit::kernel_key(family, {13, 1}));
  CHECK(jit::kernel_key(family, {1, 30}) != jit::kernel_key(family, {13, 0}));
}

TEST_CASE("flags that NVRTC appends are in the key") {
  const std::string before = jit::family_key(test_kernel("a"));
  setenv("NVRTC_APPEND_FLAGS", "-lineinfo", 1);
  CHECK(jit::family_key(test_kernel("a")) != before);
  unsetenv("NVRTC_APPEND_FLAGS");
  CHECK(jit::family_key(test_kernel("a")) == before);
}

TEST_CASE("neither source text, shared memory nor paths are in the key") {
  jit::KernelSpec spec = test_kernel("a");
  const std::string before = jit::family_key(spec);
  spec.entry = nullptr;
  spec.shared_bytes = 1000;
  CHECK(jit::family_key(spec) == before);
  testing::CacheDirectory directory;
  CHECK(jit::family_key(spec) == before);
}
