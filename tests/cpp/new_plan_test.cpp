// What is told of a new plan, against the fake driver and the fake NVRTC: the trace, the log and
// the ranges have each problem once, and nothing of them can fail a call.
#include "plan/new_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "contains.hpp"
#include "fake_driver/fake_driver.hpp"
#include "jit_fixture.hpp"
#include "planned_product.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::contains;
using test::Environment;
using test::PlannedProduct;

namespace {

struct Fakes {
  testing::CacheDirectory directory;
  testing::CapturedLog captured;
  fake::CudaState& cuda = fake::use_fake_driver();
  std::string file = directory.root() + "/trace.jsonl";
  Fakes() { testing::use_fake_nvrtc(); }

  std::string traced() const { return files::read(file).value_or(""); }
  std::size_t lines() const {
    const std::string text = traced();
    return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  }
};

// No test of this process has had it: what a process has told of once it does not tell again.
PlannedProduct fresh_product() {
  static std::int64_t rows = 1000;
  return {++rows, 640, 1024};
}

std::vector<std::string>& debug_lines() {
  static std::vector<std::string> lines;
  return lines;
}

}  // namespace

TEST_CASE_FIXTURE(Fakes, "the trace has each problem once, whichever thread has it") {
  const Environment trace("DEEPGEMM_TRACE", file.c_str());
  const PlannedProduct one = fresh_product(), other = fresh_product();
  std::vector<std::thread> threads;
  threads.reserve(4);
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int call = 0; call < 3; ++call) gemm(one.args);
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(lines() == 1);
  gemm(other.args);
  CHECK(lines() == 2);
  Policy policy;
  policy.kernel = "general";
  CallOptions options;
  options.policy = &policy;
  for (int call = 0; call < 3; ++call) gemm(one.args, options);
  CHECK(lines() == 3);
  CHECK(contains(traced(), R"("policy": {"kernel": "general"})"));
  PlannedProduct shifted = one;
  PlannedProduct::shift(shifted.args.out, 2);
  gemm(shifted.args);
  CHECK(lines() == 4);
  CHECK(contains(traced(), R"("offset": 2)"));
}

TEST_CASE_FIXTURE(Fakes, "nothing is recorded unless it is asked for, nor by explain and prepare") {
  {
    const Environment no_trace("DEEPGEMM_TRACE", nullptr);
    gemm(fresh_product().args);
  }
  const Environment trace("DEEPGEMM_TRACE", file.c_str());
  PlannedProduct product = fresh_product();
  product.plan();
  CHECK(lines() == 0);
}

TEST_CASE_FIXTURE(Fakes, "a trace that cannot be written costs a warning, and no call") {
  const std::size_t before = cuda.launches.size();
  {
    const Environment full("DEEPGEMM_TRACE", "/dev/full");
    for (int call = 0; call < 3; ++call) gemm(fresh_product().args);
  }
  CHECK(cuda.launches.size() == before + 3);
  CHECK(captured.messages().size() == 1);
  CHECK(contains(captured.messages().front(), "DEEPGEMM_TRACE: cannot write /dev/full: No space"));
  // What was cut off must not swallow the next line.
  const Environment trace("DEEPGEMM_TRACE", file.c_str());
  gemm(fresh_product().args);
  gemm(fresh_product().args);
  CHECK(traced().substr(0, 2) == "\n{");
  CHECK(lines() == 3);
}

TEST_CASE_FIXTURE(Fakes, "debug says of each new plan what it is, and of a repeated call nothing") {
  const Environment level("DEEPGEMM_LOG", "debug");
  debug_lines().clear();
  log::set_sink([](log::Level, std::string_view text) { debug_lines().emplace_back(text); });
  const PlannedProduct product = fresh_product();
  const auto plans = [] {
    return std::count_if(debug_lines().begin(), debug_lines().end(),
                         [](const std::string& line) { return line.starts_with("plan of "); });
  };
  gemm(product.args);
  CHECK(plans() == 1);
  const std::string line = debug_lines().back();
  CHECK(contains(line, "x640x1024 float8_e4m3fn x float8_e4m3fn to bfloat16: deepgemm_fp8_gemm, "));
  CHECK(contains(line, "stages"));
  CHECK((contains(line, "; from compiled, ") || contains(line, "; from memory, 0 ms")));
  const std::size_t all = debug_lines().size();
  for (int call = 0; call < 3; ++call) gemm(product.args);
  std::thread([&] { gemm(product.args); }).join();
  CHECK(debug_lines().size() == all);
  log::set_sink(nullptr);
}

TEST_CASE_FIXTURE(Fakes, "strict mode names the problem") {
  PlannedProduct product = fresh_product();
  product.set_out(DType::float32);  // a kernel that no other test here compiles
  jit::set_strict(true);
  std::string text;
  try {
    gemm(product.args);
  } catch (const Error& error) {
    text = error.what();
  }
  jit::set_strict(std::nullopt);
  CHECK(contains(text, "x640x1024 float8_e4m3fn x float8_e4m3fn to float32: strict mode: "));
}

#ifdef FAKE_NVTX_PATH
TEST_CASE_FIXTURE(Fakes, "launches are marked for a profiler if that is asked for") {
  setenv("NVTX_INJECTION64_PATH", FAKE_NVTX_PATH, 1);
  void* library = dlopen(FAKE_NVTX_PATH, RTLD_NOW | RTLD_LOCAL);
  REQUIRE(library != nullptr);
  const auto take = reinterpret_cast<const char* (*)()>(dlsym(library, "fake_nvtx_take"));
  const PlannedProduct marked = fresh_product(), unmarked = fresh_product();
  gemm(unmarked.args);
  const Environment ranges("DEEPGEMM_NVTX", "1");
  gemm(marked.args);
  gemm(marked.args);
  gemm(unmarked.args);  // its plan was made without
  const std::string name = "deepgemm: " + plan::words_of(make_problem(marked.args), 1) + "\n";
  CHECK(std::string(take()) == name + name);
  cuda.fail("cuLaunchKernelEx", CUDA_ERROR_INVALID_VALUE);
  CHECK_THROWS_AS(gemm(marked.args), DriverError);
  cuda.heal();
  CHECK(std::string(take()) == name);  // closed after a failure too
}
#endif
