// deepgemm::Plan, against the fake driver and on the CPU reference: it runs what the operation
// would, and refuses by name what it was not made for.
#include "deepgemm/plan.hpp"

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "contains.hpp"
#include "fake_driver/fake_driver.hpp"
#include "jit_fixture.hpp"
#include "plan/plan_cache.hpp"
#include "planned_product.hpp"
#include "recorded_launches.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::contains;
using test::launches_in_a_new_thread;
using test::launches_of;
using test::message_of;
using test::PlannedProduct;

namespace {

void move(GemmArgs& args, std::int64_t bytes) {
  for (TensorView* view : {&args.a.values, &args.b.values, &*args.a.sf, &*args.b.sf, &args.out}) {
    PlannedProduct::shift(*view, bytes);
  }
}

TensorView view(std::uintptr_t place, DType dtype, std::initializer_list<std::int64_t> shape) {
  return make_view(reinterpret_cast<void*>(place << 48), dtype, shape, test::gpu);
}

GroupedArgs rows_args() {
  GroupedArgs args;
  args.a.values = view(1, DType::bfloat16, {512, 256});
  args.b.values = view(2, DType::bfloat16, {4, 128, 256});
  args.out = view(3, DType::bfloat16, {512, 128});
  args.groups = view(4, DType::int32, {4});
  return args;
}

MaskedArgs masked_args() {
  MaskedArgs args;
  args.a.values = view(1, DType::bfloat16, {4, 512, 256});
  args.b.values = view(2, DType::bfloat16, {4, 128, 256});
  args.out = view(3, DType::bfloat16, {4, 512, 128});
  args.rows = view(4, DType::int32, {4});
  return args;
}

KGroupedArgs k_args() {
  KGroupedArgs args;
  args.a.values = view(1, DType::bfloat16, {128, 512});
  args.b.values = view(2, DType::bfloat16, {256, 512});
  args.out = view(3, DType::float32, {4, 128, 256});
  args.k_sizes = view(4, DType::int32, {4});
  return args;
}

}  // namespace

TEST_CASE(
    "a plan launches what the operation would, on its stream, and making it launches nothing") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  Policy policy;
  policy.tile_m = 64, policy.tile_n = 64;
  for (bool with_policy : {false, true}) {
    CallOptions options;
    options.num_sms = 20, options.pdl = true;
    if (with_policy) options.policy = &policy;
    GemmArgs args = PlannedProduct(64, 512, 512).args;
    const std::size_t before = state.launches.size();
    const Plan plan = make_plan(args, options);
    CHECK(state.launches.size() == before);
    policy.tile_n = 128;  // the plan has its own
    move(args, 1 << 20);
    const auto found = launches_of([&] { plan.run(args, reinterpret_cast<Stream>(0x55)); });
    policy.tile_n = 64;
    options.stream = reinterpret_cast<Stream>(0x55);
    CHECK((found == launches_in_a_new_thread([&] { gemm(args, options); })));
    const int encoded = state.count("cuTensorMapEncodeTiled");
    plan.run(args);
    CHECK(state.count("cuTensorMapEncodeTiled") == encoded);
  }
}

TEST_CASE("plans of grouped products") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver();
  const auto check = [](const auto& args, const char* kernel, auto operation) {
    const Plan plan = make_plan(args);
    CHECK((launches_of([&] { plan.run(args); }) ==
           launches_in_a_new_thread([&] { operation(args, CallOptions{}); })));
    CHECK(plan.explain().kernel == kernel);
    CHECK(std::get<GroupedProblem>(plan.problem()) == make_problem(args));
  };
  const auto rows = [](const auto& args, const CallOptions& o) { grouped_gemm(args, o); };
  check(rows_args(), "deepgemm_bf16_gemm", rows);
  check(masked_args(), "deepgemm_bf16_gemm",
        [](const auto& args, const CallOptions& o) { masked_gemm(args, o); });
  check(k_args(), "deepgemm_bf16_gemm",
        [](const auto& args, const CallOptions& o) { k_grouped_gemm(args, o); });
  GroupedArgs odd = rows_args();
  PlannedProduct::shift(odd.a.values, 2);
  check(odd, "deepgemm_general_grouped", rows);
  CHECK(contains(message_of<ValueError>([&] { make_plan(rows_args()).run(masked_args()); }),
                 "plan: found masked_gemm, need grouped_gemm"));
}

TEST_CASE("a call that differs from the example is refused by name") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  GemmArgs example = PlannedProduct(64, 512, 512).args;
  const auto message = [&](const std::function<void(GemmArgs&)>& change) {
    const Plan plan = make_plan(example);
    GemmArgs args = example;
    change(args);
    const std::size_t before = state.launches.size();
    std::string words = message_of<ValueError>([&] { plan.run(args); });
    CHECK(state.launches.size() == before);
    return words;
  };
  using P = PlannedProduct;
  CHECK(contains(message([](GemmArgs& a) { a.a.values.shape[0] = 63; }),
                 "a: found shape [63, 512], need [64, 512] (the plan was made with it)"));
  CHECK(contains(message([](GemmArgs& a) { a.b.values.strides[0] = 1024; }),
                 "b: found strides [1024, 1], need [512, 1]"));
  CHECK(contains(message([](GemmArgs& a) { P::shift(*a.a.sf, 4); }),
                 "sfa: found an address 4 bytes past a multiple of 16, need 0 bytes past one"));
  CHECK(contains(message([](GemmArgs& a) { a.b.sf->device.index = 1; }), "sfb: found an array on"));
  CHECK(contains(message([](GemmArgs& a) { a.a.sf.reset(); }), "sfa: found none, need"));
  CHECK(contains(message([](GemmArgs& a) { a.bias = view(9, DType::float32, {512}); }),
                 "bias: found [512] float32 cuda:0, strides [1], need none"));
  CHECK(contains(message([](GemmArgs& a) { a.alpha = 2; }), "alpha: found 2, need 1"));
  CHECK(contains(message([](GemmArgs& a) { a.layout = Layout::nn; }), "layout"));
  CHECK(contains(message([](GemmArgs& a) { a.activation = Activation::relu; }), "activation"));
  CHECK(contains(message([](GemmArgs& a) { a.a.granularity = {1, 64}; }), "granularity of a"));
  CHECK(contains(message([](GemmArgs& a) { a.out.read_only = true; }), "read-only"));
  CHECK(contains(message([](GemmArgs& a) { a.out.data = nullptr; }), "plan"));
  CHECK(contains(message([](GemmArgs& a) { a.out.data = a.b.values.data; }), "overlaps b"));
  CHECK(contains(message([](GemmArgs& a) { a.a.values.rank = 9; }), "a: "));
  const Plan plan = make_plan(example);
  GemmArgs args = example;
  args.out.dtype = DType::float16;
  CHECK(contains(message_of<TypeError>([&] { plan.run(args); }),
                 "out: found float16, need bfloat16"));
  example.out.dtype = DType::float32;
  example.c = example.out;
  CHECK(contains(message([](GemmArgs& a) { P::shift(*a.c, std::int64_t{1} << 40); }),
                 "c: found memory of its own, need out itself"));
  CHECK(contains(message([](GemmArgs& a) { a.c.reset(); }), "c: found none"));
}

TEST_CASE("a granularity may be given or not, as long as it is the plan's") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  const auto with = [](std::optional<Granularity> a, std::optional<Granularity> b) {
    GemmArgs args = PlannedProduct(64, 512, 512).args;
    args.a.granularity = a, args.b.granularity = b;
    return args;
  };
  const Granularity rows{1, 128}, blocks{128, 128}, other{1, 64};
  const GemmArgs named = with(rows, blocks), bare = with(std::nullopt, std::nullopt);
  for (const GemmArgs& example : {named, bare, with(rows, std::nullopt)}) {
    const Plan plan = make_plan(example);
    for (const GemmArgs& given : {named, bare, with(rows, std::nullopt)}) {
      const auto found = launches_of([&] { plan.run(given); });
      CHECK(found.size() == 1);
      CHECK((found == launches_in_a_new_thread([&] { gemm(example); })));
    }
    const std::size_t before = state.launches.size();
    for (const GemmArgs& wrong : {with(other, std::nullopt), with(other, blocks)}) {
      CHECK(contains(message_of<ValueError>([&] { plan.run(wrong); }),
                     "granularity of a: found (1, 64), need "));
    }
    GemmArgs cut = bare;
    cut.b.sf->shape[0] = 3;
    CHECK(contains(message_of<ValueError>([&] { plan.run(cut); }), "sfb: found shape [3, 4]"));
    CHECK(state.launches.size() == before);
  }
}

TEST_CASE(
    "a plan needs the place of arrays within 16 bytes, and strides only where they mean "
    "something") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver();
  GemmArgs example = PlannedProduct(1, 512, 512).args;
  const Plan plan = make_plan(example);
  example.a.values.strides[0] = 7, example.out.strides[0] = 3;
  CHECK_NOTHROW(plan.run(example));
}

TEST_CASE("explain says what was chosen, and problem what is computed") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver();
  const PlannedProduct product(4096, 512, 512);
  const Plan plan = make_plan(product.args);
  const KernelReport expected = explain(product.args, {nullptr, 0});
  CHECK(plan.explain().kernel == expected.kernel);
  CHECK(plan.explain().config == expected.config);
  CHECK(plan.explain().grid == expected.grid);
  CHECK(plan.explain().candidates.size() == expected.candidates.size());
  CHECK(plan.explain().origin == "compiled");
  CHECK(std::get<GemmProblem>(plan.problem()) == make_problem(product.args));
  Policy policy;
  policy.kernel = "general";
  CHECK(make_plan(product.args, {.policy = &policy}).explain().kernel == "deepgemm_general_gemm");
  CHECK_THROWS_AS(make_plan(product.args, {.num_sms = -1}), ValueError);
}

TEST_CASE("one plan in 8 threads, each call with its own arrays and stream") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver();
  const Plan plan = make_plan(PlannedProduct(4096, 512, 512).args);
  std::array<int, 8> wrong{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      GemmArgs args = PlannedProduct(4096, 512, 512).args;
      const auto stream = reinterpret_cast<Stream>(0x100 + t);
      for (int i = 0; i < 200; ++i) {
        move(args, 4096);
        const auto found = launches_of([&] { plan.run(args, stream); });
        const auto* params =
            reinterpret_cast<const device::GemmParams*>(found.at(0).parameters.data());
        if (found.size() != 1 || found[0].stream != stream || params->out_data != args.out.data)
          ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int count : wrong) CHECK(count == 0);
}

TEST_CASE("plans that take turns, and wrong calls between them, launch each its own") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  const GemmArgs few = PlannedProduct(64, 512, 512).args, many = PlannedProduct(640, 512, 512).args;
  const Plan first = make_plan(few), again = make_plan(few), second = make_plan(many);
  const auto check = [](const Plan& plan, const GemmArgs& args) {
    const auto found = launches_of([&] { plan.run(args); });
    CHECK((found == launches_in_a_new_thread([&] { gemm(args); })));
  };
  const auto check_all = [&] {
    GemmArgs moved = few;
    move(moved, 4096);
    check(first, few), check(second, many), check(again, moved), check(first, moved);
    const std::size_t before = state.launches.size();
    CHECK_THROWS_AS(first.run(many), ValueError);
    CHECK_THROWS_AS(second.run(few), ValueError);
    moved.out.data = moved.b.values.data;
    CHECK(contains(message_of<ValueError>([&] { first.run(moved); }), "overlaps b"));
    CHECK(state.launches.size() == before);
    check(first, few);
  };
  check_all();
  check_all();
  // A thread that has lost what it kept, and then more threads than one.
  for (std::int64_t m = 1; m <= 1400; ++m) gemm(PlannedProduct(m, 512, 512).args);
  check_all();
  std::thread(check_all).join();
  check_all();
}

TEST_CASE("a plan of host memory runs the reference, with the same checks") {
  float a[2 * 3] = {1, 2, 3, 4, 5, 6}, b[2 * 3] = {1, 0, 1, 0, 1, 0}, out[2 * 2] = {};
  GemmArgs args;
  args.a.values = make_view(a, DType::float32, {2, 3});
  args.b.values = make_view(b, DType::float32, {2, 3});
  args.out = make_view(out, DType::float32, {2, 2});
  const Plan plan = make_plan(args);
  CHECK(out[0] == 0);
  plan.run(args);
  CHECK(out[0] == 4);
  CHECK(out[3] == 5);
  CHECK(plan.explain().kernel == "cpu");
  args.out.data = a + 1;
  CHECK(
      contains(message_of<ValueError>([&] { plan.run(args); }), "out: found memory that overlaps"));
  args.out = make_view(out, DType::float32, {1, 2});
  CHECK(contains(message_of<ValueError>([&] { plan.run(args); }), "out: found shape [1, 2], need"));
}

TEST_CASE("a plan of nothing runs, and the cost of a call is measured") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  const GemmArgs empty = PlannedProduct(0, 512, 512).args;
  const Plan plan = make_plan(empty);
  const std::size_t before = state.launches.size();
  plan.run(empty);
  CHECK(state.launches.size() == before);
  const PlannedProduct product(64, 512, 512);
  const CallCost cost = measure_call(product.args, {}, 10, 3);
  CHECK(state.launches.size() == before + 1 + 2 * 3 * 10);
  CHECK(cost.call_us > 0);
  CHECK(cost.launch_us > 0);
  CHECK_THROWS_AS(measure_call(empty, {}, 10, 3), ValueError);
  CHECK_THROWS_AS(measure_call(product.args, {}, 0, 3), ValueError);
}
