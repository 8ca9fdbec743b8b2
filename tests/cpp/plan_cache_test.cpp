// The prepared calls of a thread, against the fake driver and the fake NVRTC: a call launches what
// it would have launched as the first one, and what may change from call to call finds the old one.
#include "plan/plan_cache.hpp"

#include <doctest/doctest.h>

#include <array>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "fake_driver/fake_driver.hpp"
#include "jit_fixture.hpp"
#include "planned_call.hpp"
#include "recorded_launches.hpp"

using namespace deepgemm;
using plan::GemmPlan;
using test::bias_of;
using test::Call;
using test::check_repeats;
using test::launches_of;
using test::move_to;
using test::PlannedProduct;
using test::Variant;

namespace {

Variant changed(const char* what, const std::function<void(Call&)>& change) {
  Call call;
  change(call);
  return {what, [call] { call.run(); }};
}

// One call for each field of the signature.
std::vector<Variant> calls_of_every_field() {
  using P = PlannedProduct;
  const auto edited = [](const char* what, const std::function<void(GemmArgs&)>& edit) {
    return changed(what, [&](Call& call) { edit(call.product.args); });
  };
  return {
      changed("nothing", [](Call&) {}),
      changed("M", [](Call& c) { c.product = P(5000, 640, 1024); }),
      changed("N", [](Call& c) { c.product = P(300, 7168, 1024); }),
      changed("K", [](Call& c) { c.product = P(300, 640, 0); }),
      changed("granularity of a",
              [](Call& c) { P::set_factors(c.product.args.a, 4, {1, 1024}, 300, 1024); }),
      changed("granularity of b", [](Call& c) { c.product = P(300, 640, 1024, {1, 128}); }),
      changed("num_sms", [](Call& c) { c.options.num_sms = 7; }),
      changed("device", [](Call& c) { move_to(1, c.product.args); }),
      edited("stride of a", [](GemmArgs& a) { a.a.values.strides = {1032, 1}; }),
      edited("stride of b", [](GemmArgs& a) { a.b.values.strides = {1, 640}; }),
      edited("stride of sfa", [](GemmArgs& a) { a.a.sf->strides = {8, 1}; }),
      edited("stride of out", [](GemmArgs& a) { a.out.strides = {641, 1}; }),
      edited("address of a", [](GemmArgs& a) { P::shift(a.a.values, 1); }),
      edited("address of b", [](GemmArgs& a) { P::shift(a.b.values, 8); }),
      edited("address of sfa", [](GemmArgs& a) { P::shift(*a.a.sf, 4); }),
      edited("address of out", [](GemmArgs& a) { P::shift(a.out, 2); }),
      edited("dtype of a", [](GemmArgs& a) { a.a.values.dtype = DType::float8_e5m2; }),
      edited("dtype of b", [](GemmArgs& a) { a.b.values.dtype = DType::float8_e5m2; }),
      edited("dtype of sfa", [](GemmArgs& a) { a.a.sf->dtype = DType::float8_e8m0fnu; }),
      edited("dtype of sfb", [](GemmArgs& a) { a.b.sf->dtype = DType::float8_e8m0fnu; }),
      edited("dtype of out", [](GemmArgs& a) { a.out = P::view(3, DType::float16, 300, 640); }),
      edited("no sfa", [](GemmArgs& a) { a.a.sf.reset(); }),
      edited("no sfb", [](GemmArgs& a) { a.b.sf.reset(); }),
      edited("layout",
             [](GemmArgs& a) {
               a.layout = Layout::nn;
               a.b.values = P::view(2, DType::float8_e4m3fn, 1024, 640);
               a.b.sf = P::view(5, DType::float32, 8, 5);
             }),
      edited("alpha", [](GemmArgs& a) { a.alpha = 2; }),
      edited("a bias", [](GemmArgs& a) { a.bias = bias_of(DType::float32); }),
      edited("dtype of bias", [](GemmArgs& a) { a.bias = bias_of(DType::bfloat16); }),
      edited("stride of bias", [](GemmArgs& a) { a.bias = bias_of(DType::float32, 2); }),
      edited("activation", [](GemmArgs& a) { a.activation = Activation::silu; }),
      edited("another activation", [](GemmArgs& a) { a.activation = Activation::relu; }),
      edited("a float8 out",
             [](GemmArgs& a) { a.out = P::view(3, DType::float8_e4m3fn, 300, 640); }),
      edited("a float8 out, scaled",
             [](GemmArgs& a) {
               a.out = P::view(3, DType::float8_e4m3fn, 300, 640);
               a.out_scale = 4;
             }),
      changed("pdl", [](Call& c) { c.options.pdl = true; }),
      changed("constant_b", [](Call& c) { c.options.constant_b = true; }),
      changed("a policy's kernel",
              [](Call& c) { c.has_policy = true, c.policy.kernel = "general"; }),
      changed("a policy's tile",
              [](Call& c) { c.has_policy = true, c.policy.tile_m = 64, c.policy.tile_n = 128; }),
      changed("another tile",
              [](Call& c) { c.has_policy = true, c.policy.tile_m = 64, c.policy.tile_n = 64; }),
      changed("a policy's num_sms", [](Call& c) { c.has_policy = true, c.policy.num_sms = 5; }),
      changed("a policy's stages", [](Call& c) { c.has_policy = true, c.policy.stages = 2; }),
      changed("c",
              [](Call& c) {
                c.product.set_out(DType::float32);
                c.product.args.c = c.product.args.out;
              }),
      changed("c in place, long K",
              [](Call& c) {
                c.product = P(300, 640, 4096);
                c.product.set_out(DType::float32);
                c.product.args.c = c.product.args.out;
              }),
      changed("c of its own, long K",
              [](Call& c) {
                c.product = P(300, 640, 4096);
                c.product.set_out(DType::float32);
                c.product.add_c_of_its_own();
              }),
      changed("dtype of c",
              [](Call& c) {
                c.product.set_out(DType::bfloat16);
                c.product.args.c = P::view(6, DType::float32, 300, 640);
              }),
      changed("stride of c",
              [](Call& c) {
                c.product.set_out(DType::float32);
                c.product.add_c_of_its_own();
                c.product.args.c->strides = {641, 1};
              }),
      changed("address of c",
              [](Call& c) {
                c.product.set_out(DType::float32);
                c.product.add_c_of_its_own();
                P::shift(*c.product.args.c, 4);
              }),
  };
}

}  // namespace

TEST_CASE("whatever was planned before, a call launches what it would as the first one") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver();
  check_repeats(calls_of_every_field());
}

TEST_CASE("a thread keeps no more calls than it may, each thread its own") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver();
  for (std::int64_t m = 1; m <= 1400; ++m) {
    const PlannedProduct product(m, 640, 1024);
    const auto found = launches_of([&] { gemm(product.args); });
    REQUIRE(found.size() == 1);
    REQUIRE(found[0].grid == product.plan().grid);
    REQUIRE(plan::kept_calls() <= plan::most_prepared_calls);
  }
  CHECK(plan::kept_calls() > plan::most_prepared_calls * 3 / 4);
  std::thread([] { CHECK(plan::kept_calls() == 0); }).join();
}

TEST_CASE("8 threads at once launch what each of them asks for") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver();
  const std::vector<Variant> variants = calls_of_every_field();
  std::vector<test::Launches> expected;
  for (const Variant& v : variants) expected.push_back(test::launches_in_a_new_thread(v.call));
  std::array<int, 8> wrong{};
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 4 * variants.size(); ++i) {
        const std::size_t which = (i * (2 * t + 1) + t) % variants.size();
        if (launches_of(variants[which].call) != expected[which]) ++wrong[t];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int count : wrong) CHECK(count == 0);
}

TEST_CASE("gemm launches what was planned, with and without a policy") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  const auto launched = [&](const PlannedProduct& p, CallOptions options,
                            const Policy* policy = nullptr) {
    options.policy = policy;
    gemm(p.args, options);
    return state.launches.back();
  };
  const PlannedProduct large(4096, 7168, 1024), small(8, 7168, 1024), odd(64, 65, 0);
  for (const PlannedProduct* p : {&large, &small, &odd}) {
    const fake::LaunchCall call = launched(*p, {.pdl = true});
    const GemmPlan expected = p->plan();
    CHECK(call.grid == expected.grid);
    CHECK(call.block == static_cast<unsigned>(expected.threads));
    CHECK(call.shared_bytes == static_cast<unsigned>(expected.shared_bytes));
    const bool pdl = expected.kernel != plan::GemmKernel::general;  // it would not wait
    CHECK(call.attributes.size() == (expected.cluster > 1 ? 1U : 0U) + (pdl ? 1U : 0U));
  }
  Policy policy;
  policy.tile_m = 128, policy.tile_n = 128, policy.cluster_n = 1, policy.cluster_m = 1;
  CHECK(launched(large, {.num_sms = 20}, &policy).grid <= 20);
  CHECK(launched(large, {.num_sms = 20}).grid <= 20);
  CHECK(launched(small, {.num_sms = 20}).grid <= 20);
  policy.num_sms = 9;
  CHECK(launched(large, {.num_sms = 20}, &policy).grid <= 9);
  CHECK_THROWS_AS(launched(large, {.num_sms = -1}), ValueError);
}

namespace {

// `count` products of 64 x 640 x 1024 whose a lie `apart` bytes apart.
GemmArgs batch_of(std::int64_t count, std::int64_t apart) {
  const PlannedProduct one(64, 640, 1024);
  GemmArgs args = one.args;
  const auto stack = [count](TensorView& view, std::int64_t distance) {
    const TensorView matrix = view;
    view.rank = 3;
    view.shape = {count, matrix.shape[0], matrix.shape[1]};
    view.strides = {distance, matrix.strides[0], matrix.strides[1]};
  };
  stack(args.a.values, apart);
  stack(args.out, 64 * 640);
  return args;
}

}  // namespace

TEST_CASE("each product of a batch is launched as its own addresses ask") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  const PlannedProduct aligned(64, 640, 1024);
  PlannedProduct odd(64, 640, 1024);
  PlannedProduct::shift(odd.args.a.values, 8);
  const GemmPlan fast = aligned.plan(), slow = odd.plan();
  REQUIRE(fast.kernel != plan::GemmKernel::general);
  REQUIRE(slow.kernel == plan::GemmKernel::general);
  const auto grids = [&](const GemmArgs& args, const Policy* policy = nullptr) {
    const std::size_t before = state.launches.size();
    CallOptions options;
    options.policy = policy;
    gemm(args, options);
    std::vector<std::int64_t> found;
    for (std::size_t i = before; i < state.launches.size(); ++i) {
      found.push_back(state.launches[i].grid);
    }
    return found;
  };
  const std::int64_t f = fast.grid, s = slow.grid;
  REQUIRE(f != s);
  using Grids = std::vector<std::int64_t>;
  CHECK(grids(batch_of(3, 64 * 1024)) == Grids{f, f, f});
  CHECK(grids(batch_of(5, 64 * 1024 + 8)) == Grids{f, s, f, s, f});
  CHECK(grids(batch_of(6, 64 * 1024 + 4)) == Grids{f, s, s, s, f, s});
  CHECK(grids(batch_of(18, 64 * 1024 + 1)).at(16) == f);
  CHECK(grids(batch_of(0, 64 * 1024)).empty());
  CHECK(grids(batch_of(1, 64 * 1024)) == Grids{f});
  // A policy that the second product rules out: nothing is launched.
  Policy policy;
  policy.kernel = "persistent";
  CHECK(grids(batch_of(2, 64 * 1024), &policy).size() == 2);
  const std::size_t before = state.launches.size();
  CHECK_THROWS_AS(grids(batch_of(2, 64 * 1024 + 8), &policy), ValueError);
  CHECK(state.launches.size() == before);
}

TEST_CASE("a batch, another batch and a single product have plans of their own") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver();
  std::vector<Variant> variants;
  const auto add = [&](const char* what, const std::function<void(GemmArgs&)>& change) {
    GemmArgs args = PlannedProduct(512, 256, 128, DType::bfloat16).args;
    for (TensorView* view : {&args.a.values, &args.b.values, &args.out}) {
      const std::int64_t rows = view->shape[0], columns = view->shape[1];
      *view = make_view(view->data, view->dtype, {48, rows, columns}, test::gpu);
    }
    change(args);
    variants.push_back({what, [args] { gemm(args); }});
  };
  add("all", [](GemmArgs&) {});
  add("one b for all", [](GemmArgs& a) { a.b.values.strides[0] = 0; });
  add("another epilogue", [](GemmArgs& a) { a.out.strides[0] += 1; });
  add("a launch for each", [](GemmArgs& a) { a.a.values.strides[0] += 1; });
  add("others between", [](GemmArgs& a) { a.a.values.strides[0] += 8; });
  add("another count", [](GemmArgs& a) {
    for (TensorView* view : {&a.a.values, &a.b.values, &a.out}) view->shape[0] = 2;
  });
  add("one product", [](GemmArgs& a) { a = PlannedProduct(512, 256, 128, DType::bfloat16).args; });
  check_repeats(variants);
  CHECK(launches_of(variants[0].call).size() == 1);
  CHECK(launches_of(variants[3].call).size() == 48);
}
