// The plans of a thread, against the fake driver and the fake NVRTC: a call finds the plan that it
// would have made, and what may change from call to call finds the old one.
#include "plan/plan_cache.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "fake_driver/fake_driver.hpp"
#include "jit_fixture.hpp"
#include "planned_product.hpp"

using namespace deepgemm;
using plan::GemmPlan;
using plan::SmBudget;
using test::PlannedProduct;

namespace {

struct Call {
  const char* what;
  PlannedProduct product;
  int device = 0;
  SmBudget sms{132, false};
};

bool same(const GemmPlan& a, const GemmPlan& b) {
  return a.kernel == b.kernel && a.spec.name == b.spec.name && a.spec.config == b.spec.config &&
         a.reason == b.reason && a.grid == b.grid && a.cluster == b.cluster &&
         a.threads == b.threads && a.shared_bytes == b.shared_bytes &&
         a.choice.raster_group == b.choice.raster_group &&
         a.choice.raster_along_n == b.choice.raster_along_n;
}

const plan::ReadyPlan& ready(const Call& call) {
  const GemmArgs& args = call.product.args;
  return plan::ready_plan(make_problem(args), args, call.device, call.sms);
}

Call changed(const char* what, const std::function<void(Call&)>& change) {
  Call call{what, PlannedProduct(300, 640, 1024)};
  change(call);
  return call;
}

// One call for each field of the key; all make other plans than the first one does, but for the
// device, whose function is another.
std::vector<Call> calls_of_every_field() {
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
      changed("num_sms", [](Call& c) { c.sms = {7, true}; }),
      changed("device", [](Call& c) { c.device = 1; }),
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
      edited("a bias",
             [](GemmArgs& a) {
               a.bias = make_view(reinterpret_cast<void*>(std::uintptr_t{9} << 48), DType::float32,
                                  {640}, test::gpu);
             }),
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

TEST_CASE("whatever was planned before, a call gets the plan that it would make") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver();
  const std::vector<Call> calls = calls_of_every_field();
  const GemmPlan first = calls.front().product.plan();
  for (int round = 0; round < 2; ++round) {  // the second one finds them all
    for (const Call& call : calls) {
      CAPTURE(call.what);
      CAPTURE(round);
      const GemmPlan expected = call.product.plan(nullptr, call.sms);
      CHECK(same(ready(call).plan, expected));
      if (&call != &calls.front() && call.device == 0) CHECK_FALSE(same(expected, first));
    }
  }
  CHECK(ready(calls[7]).function != ready(calls[0]).function);  // another device
}

TEST_CASE("a repeated call finds its plan, wherever its arrays lie") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver();
  Call call{"", PlannedProduct(700, 640, 1024)};
  const plan::ReadyPlan* plan = &ready(call);
  CHECK(plan->function != nullptr);
  CHECK(&ready(call) == plan);
  GemmArgs& args = call.product.args;
  for (TensorView* view : {&args.a.values, &args.b.values, &*args.a.sf, &*args.b.sf, &args.out}) {
    PlannedProduct::shift(*view, 4096);
  }
  CHECK(&ready(call) == plan);
  // The values of an epilogue are parameters: only its being there is planned for.
  args.alpha = 2;
  plan = &ready(call);
  args.alpha = 3;
  args.activation = Activation::relu;
  CHECK(&ready(call) == plan);
}

TEST_CASE("more shapes than the cache holds are no error") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver();
  for (std::int64_t m = 1; m <= 1100; ++m) {
    const Call call{"", PlannedProduct(m, 640, 1024)};
    REQUIRE(same(ready(call).plan, call.product.plan()));
  }
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
  const PlannedProduct p(512, 256, 128, DType::bfloat16);
  plan::GemmBatch whole{48, 512 * 128, 0, 256 * 128, 0, 512 * 256, 0};
  std::vector<plan::GemmBatch> batches(6, whole);
  batches[1] = {};      // one product
  batches[2].b = 0;     // one b for all
  batches[3].out += 1;  // another epilogue
  batches[4].a += 1;    // a launch for each
  batches[5].count = 2;
  for (int round = 0; round < 2; ++round) {
    for (const plan::GemmBatch& batch : batches) {
      const auto problem = make_problem(p.args);
      const GemmPlan made = plan::make_gemm_plan(problem, p.args, nullptr, {132, false}, batch);
      const GemmPlan& found = plan::ready_plan(problem, p.args, 0, {132, false}, batch).plan;
      CHECK(same(found, made));
      CHECK(found.whole_batch == made.whole_batch);
    }
  }
  const GemmPlan all =
      plan::make_gemm_plan(make_problem(p.args), p.args, nullptr, {132, false}, whole);
  CHECK(all.whole_batch);
  CHECK_FALSE(same(all, p.plan()));
}
