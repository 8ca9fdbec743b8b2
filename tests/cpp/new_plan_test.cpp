// What is told of a new plan, against the fake driver and the fake NVRTC: the trace, the log and
// the ranges have each problem once, and nothing of them can fail a call.
#include "plan/new_plan.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "contains.hpp"
#include "deepgemm/plan.hpp"
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

// `count` products whose a lie 8 bytes past a multiple of 16 every second time: a launch for each.
GemmArgs fresh_batch(std::int64_t count) {
  GemmArgs args = fresh_product().args;
  const auto stack = [count](TensorView& view, std::int64_t padding) {
    const std::int64_t rows = view.shape[0], columns = view.shape[1];
    view = make_view(view.data, view.dtype, {count, rows, columns}, test::gpu);
    view.strides[0] += padding;
  };
  stack(args.a.values, 8);
  stack(args.out, 0);
  return args;
}

#ifdef FAKE_NVTX_PATH
GroupedArgs fresh_groups() {
  const PlannedProduct product = fresh_product();
  GroupedArgs args;
  args.a = product.args.a;
  args.out = product.args.out;
  args.b.values =
      make_view(product.args.b.values.data, DType::float8_e4m3fn, {4, 640, 1024}, test::gpu);
  args.b.sf = make_view(product.args.b.sf->data, DType::float32, {4, 5, 8}, test::gpu);
  args.groups =
      make_view(reinterpret_cast<void*>(std::uintptr_t{6} << 48), DType::int32, {4}, test::gpu);
  return args;
}
#endif

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

TEST_CASE_FIXTURE(Fakes, "a call that was prepared ahead is told of when it is, and not again") {
  const Environment trace("DEEPGEMM_TRACE", file.c_str());
  PlannedProduct product = fresh_product();
  const Plan prepared = make_plan(product.args);
  CHECK(lines() == 1);
  prepared.run(product.args);
  std::thread([&] { prepared.run(product.args); }).join();
  gemm(product.args);
  PlannedProduct::shift(product.args.a.values, 4096);
  gemm(product.args);
  product.args.alpha = 2;
  gemm(product.args);  // another call, which has another epilogue
  CHECK(lines() == 2);
  product.args.alpha = 3;
  gemm(product.args);
  CHECK(lines() == 2);
}

TEST_CASE_FIXTURE(Fakes, "a batch that is launched product by product has a line for each plan") {
  const Environment trace("DEEPGEMM_TRACE", file.c_str());
  const GemmArgs batch = fresh_batch(5);
  const std::size_t before = cuda.launches.size();
  for (int call = 0; call < 2; ++call) gemm(batch);
  CHECK(cuda.launches.size() == before + 10);
  CHECK(lines() == 2);
  CHECK(contains(traced(), R"("offset": 8)"));
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
  // However a call is repeated, and whichever kernel it has.
  const PlannedProduct planned = fresh_product();
  const Plan prepared = make_plan(planned.args);
  CHECK(std::string(take()).empty());
  for (int call = 0; call < 2; ++call) prepared.run(planned.args);
  const std::string other = "deepgemm: " + plan::words_of(make_problem(planned.args), 1) + "\n";
  CHECK(std::string(take()) == other + other);
  const GroupedArgs groups = fresh_groups();
  Policy general;
  general.kernel = "general";
  for (const Policy* policy : {static_cast<const Policy*>(nullptr), &std::as_const(general)}) {
    for (int call = 0; call < 2; ++call) grouped_gemm(groups, {.policy = policy});
    const std::string marks = take();
    CHECK(std::count(marks.begin(), marks.end(), '\n') == 2);
    CHECK(marks.starts_with("deepgemm: grouped_gemm of 4 groups, "));
  }
  const GemmArgs batch = fresh_batch(3);
  for (int call = 0; call < 2; ++call) gemm(batch);
  const std::string marks = take();
  CHECK(std::count(marks.begin(), marks.end(), '\n') == 6);
}
#endif
