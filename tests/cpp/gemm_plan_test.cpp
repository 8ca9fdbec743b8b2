// Which kernel, epilogue and path of the factors a product gets; no driver, no GPU, no memory.
#include "plan/gemm_plan.hpp"

#include <doctest/doctest.h>

#include "planned_product.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using device::Epilogue;
using plan::GemmKernel;
using plan::GemmPlan;
using test::contains;
using test::message_of;
using test::PlannedProduct;

namespace {

GemmPlan persistent_plan(const PlannedProduct& p) {
  GemmPlan plan = p.plan();
  REQUIRE(plan.kernel == GemmKernel::persistent);
  CHECK(plan.spec.name == "deepgemm_fp8_gemm");
  CHECK(device::broken_rule(plan.choice.config) == nullptr);
  return plan;
}

void is_general(const PlannedProduct& p, const char* reason) {
  const GemmPlan plan = p.plan();
  CHECK(plan.kernel == GemmKernel::general);
  CHECK(plan.spec.name == "deepgemm_general_gemm");
  INFO(plan.reason);
  CHECK(contains(plan.reason, reason));
}

}  // namespace

TEST_CASE("the usual product takes the persistent kernel, factors and out by TMA") {
  const GemmPlan plan = persistent_plan(PlannedProduct(4096, 7168, 2048));
  CHECK(plan.choice.config.epilogue == Epilogue::store);
  CHECK(plan.choice.config.scales_by_tma);
  CHECK_FALSE(plan.choice.config.column_scales);
  CHECK(plan.threads == plan.choice.config.threads());
  CHECK(plan.cluster == plan.choice.config.cluster());
  CHECK(plan.grid == plan.choice.grid);
  CHECK(plan.grid % plan.cluster == 0);
  CHECK(plan.shared_bytes == device::shared_map(plan.choice.config).total);
  CHECK(plan.reason == "float8 with (1, 128) and (128, 128) factors");
}

TEST_CASE("factors per column are named, and loaded by TMA where it can") {
  PlannedProduct p(4096, 7168, 2048, {1, 128});
  GemmPlan plan = persistent_plan(p);
  CHECK(plan.choice.config.column_scales);
  CHECK(plan.choice.config.scales_by_tma);
  CHECK(plan.reason == "float8 with (1, 128) factors of a and of b");
  p.args.b.sf->strides = {16, 1};  // row-major
  plan = persistent_plan(p);
  CHECK(plan.choice.config.column_scales);
  CHECK_FALSE(plan.choice.config.scales_by_tma);
  CHECK(PlannedProduct(8, 7168, 2048, {1, 128}).plan().kernel == GemmKernel::persistent);
}

TEST_CASE("factors that TMA cannot take are loaded by warps") {
  PlannedProduct p(4096, 7168, 2048);
  SUBCASE("row-major") { p.args.a.sf->strides = {16, 1}; }
  SUBCASE("an odd pitch") { p.args.a.sf->strides = {1, 4097}; }
  SUBCASE("an unaligned base") { PlannedProduct::shift(*p.args.a.sf, 4); }
  CHECK_FALSE(persistent_plan(p).choice.config.scales_by_tma);
}

TEST_CASE("M tails, and a single K block, stay with the tensor cores") {
  for (std::int64_t m : {129, 300, 4095, 4097}) {
    for (std::int64_t k : {16, 128, 144, 400}) {
      CAPTURE(m);
      CAPTURE(k);
      const GemmPlan plan = persistent_plan(PlannedProduct(m, 136, k));
      CHECK(plan.choice.tiles * plan.choice.config.tile_m * plan.choice.config.tile_n >= m * 136);
    }
  }
}

TEST_CASE("what neither tensor-core kernel takes goes to the general one, with the reason") {
  PlannedProduct p(256, 384, 512);
  SUBCASE("K = 0") { is_general(PlannedProduct(256, 384, 0), "K is 0"); }
  SUBCASE("bfloat16") {
    p.args.a = {PlannedProduct::view(1, DType::bfloat16, 256, 512), {}, {}};
    is_general(p, "neither both float8 nor of one 16-bit dtype");
  }
  SUBCASE("no factors") {
    p.args.a.sf.reset();
    is_general(p, "a has no float32 factors");
  }
  SUBCASE("per-row factors of a") {
    PlannedProduct::set_factors(p.args.a, 4, {1, 512}, 256, 512);
    is_general(p, "a has no float32 factors");
  }
  SUBCASE("per-tensor factor of b") {
    PlannedProduct::set_factors(p.args.b, 5, per_tensor, 384, 512);
    is_general(p, "b has no float32 factors");
  }
  SUBCASE("E8M0 factors") {
    p.args.a.sf->dtype = DType::float8_e8m0fnu;
    is_general(p, "a has no float32 factors");
  }
  SUBCASE("a is not K-major") {
    p.args.a.values.strides = {1, 256};
    is_general(p, "a is not K-major");
  }
  SUBCASE("b is [K, N]") {
    p.args.layout = Layout::nn;
    p.args.b.values = PlannedProduct::view(2, DType::float8_e4m3fn, 512, 384);
    p.args.b.sf = PlannedProduct::view(5, DType::float32, 4, 3);
    is_general(p, "b is not K-major");
  }
  SUBCASE("an unaligned base") {
    PlannedProduct::shift(p.args.a.values, 8);
    is_general(p, "a: ");
  }
  SUBCASE("an odd pitch") {
    p.args.b.values.strides = {520, 1};
    is_general(p, "b: ");
  }
}

TEST_CASE("the grid of the general kernel must fit 31 bits") {
  PlannedProduct p(std::int64_t{1} << 38, 64, 16);
  p.args.a.sf.reset();
  CHECK(contains(message_of<ValueError>([&] { p.plan(); }), "fewer than 2^31 tiles"));
}

TEST_CASE("epilogues") {
  PlannedProduct p(4096, 7168, 2048);
  const auto epilogue = [&] { return persistent_plan(p).choice.config.epilogue; };
  SUBCASE("each plain output is stored by TMA") {
    for (DType dtype : {DType::bfloat16, DType::float16, DType::float32}) {
      p.set_out(dtype);
      CHECK(epilogue() == Epilogue::store);
    }
  }
  SUBCASE("float8 out") {
    p.set_out(DType::float8_e4m3fn);
    CHECK(epilogue() == Epilogue::general);
  }
  SUBCASE("a short K takes an FP32 c beside the ring, in place or not") {
    p = PlannedProduct(4096, 7168, 512);
    p.set_out(DType::float32);
    p.args.c = p.args.out;
    CHECK(epilogue() == Epilogue::accumulate);
    p.args.a.sf->strides = {4, 1};  // the warps that would bring c are busy
    CHECK(epilogue() == Epilogue::reduce);
  }
  SUBCASE("rows of out that are no multiple of 16 bytes") {
    p = PlannedProduct(4096, 7172, 2048);
    p.args.out.strides = {7176, 1};
    CHECK(epilogue() == Epilogue::general);
  }
  SUBCASE("an FP32 c that is out is added by TMA") {
    p.set_out(DType::float32);
    p.args.c = p.args.out;
    CHECK(epilogue() == Epilogue::reduce);
    SUBCASE("but not with a bias") {
      p.args.bias = make_view(p.args.b.values.data, DType::float32, {7168}, test::gpu);
      CHECK(epilogue() == Epilogue::general);
    }
    SUBCASE("nor with alpha") {
      p.args.alpha = 2;
      CHECK(epilogue() == Epilogue::general);
    }
    SUBCASE("nor with an activation") {
      p.args.activation = Activation::relu;
      CHECK(epilogue() == Epilogue::general);
    }
  }
  SUBCASE("so is an FP32 c of its own, unless TMA cannot take it") {
    p.set_out(DType::float32);
    p.add_c_of_its_own();
    CHECK(epilogue() == Epilogue::accumulate);
    const TensorView fast = *p.args.a.sf;
    p.args.a.sf->strides = {16, 1};
    CHECK(epilogue() == Epilogue::general);
    p.args.a.sf = fast;
    p.args.c->strides = {7169, 1};
    CHECK(epilogue() == Epilogue::general);
    p.args.c->strides = {1, 4096};
    CHECK(epilogue() == Epilogue::general);
  }
  SUBCASE("a bfloat16 c") {
    p.args.c = p.args.out;
    CHECK(epilogue() == Epilogue::general);
  }
  SUBCASE("out with an odd pitch, an odd base, or columns apart") {
    p.args.out.strides = {7169, 1};
    CHECK(epilogue() == Epilogue::general);
    p.args.out.strides = {7168, 1};
    PlannedProduct::shift(p.args.out, 2);
    CHECK(epilogue() == Epilogue::general);
    p.args.out.strides = {14336, 2};
    CHECK(epilogue() == Epilogue::general);
  }
}

TEST_CASE("few tokens take the decode kernel") {
  for (std::int64_t m : {1, 8, 17, 32}) {
    const GemmPlan plan = PlannedProduct(m, 7168, 2048).plan();
    CAPTURE(m);
    REQUIRE(plan.kernel == GemmKernel::decode);
    CHECK(plan.decode.config.tokens >= m);
    CHECK_FALSE(plan.decode.config.general_epilogue);
    CHECK(plan.grid == plan.decode.grid);
    CHECK(plan.cluster == plan.decode.config.cluster_k);
    CHECK(plan.shared_bytes <= plan.spec.shared_bytes);
  }
  PlannedProduct p(8, 7168, 2048);
  SUBCASE("with the general epilogue where out cannot take pairs") {
    p.args.out.strides = {7169, 1};
    CHECK(p.plan().decode.config.general_epilogue);
    p.args.out.strides = {7170, 1};
    CHECK_FALSE(p.plan().decode.config.general_epilogue);
    PlannedProduct::shift(p.args.out, 2);
    CHECK(p.plan().decode.config.general_epilogue);
    p.set_out(DType::float32);
    p.args.out.strides = {7169, 1};
    CHECK_FALSE(p.plan().decode.config.general_epilogue);
  }
  SUBCASE("and with c") {
    p.args.c = p.args.out;
    CHECK(p.plan().decode.config.general_epilogue);
  }
  SUBCASE("not with a tail of K") {
    CHECK(PlannedProduct(8, 7168, 2064).plan().kernel == GemmKernel::persistent);
  }
  SUBCASE("not with E5M2") {
    p.args.b.values.dtype = DType::float8_e5m2;
    CHECK(persistent_plan(p).choice.config.b_type == device::ElementType::e5m2);
  }
  SUBCASE("not above 128 rows") {
    CHECK(PlannedProduct(129, 7168, 2048).plan().kernel == GemmKernel::persistent);
  }
}

TEST_CASE("num_sms bounds the CTAs") {
  for (int count : {1, 3, 40, 100}) {
    CAPTURE(count);
    for (std::int64_t m : {1, 64, 4096}) {
      for (const Granularity& columns : {Granularity{128, 128}, Granularity{1, 128}}) {
        const GemmPlan plan = PlannedProduct(m, 7168, 2048, columns).plan(nullptr, {count, true});
        REQUIRE(plan.kernel != GemmKernel::general);
        CHECK(plan.grid >= 1);
        CHECK(plan.grid <= count);
        CHECK(plan.cluster <= count);
      }
    }
  }
  CHECK(PlannedProduct(8, 256, 512).plan(nullptr, {40, true}).kernel == GemmKernel::decode);
  Policy policy;
  policy.kernel = "decode";
  const PlannedProduct wide(8, 7168, 512);
  CHECK(contains(message_of<ValueError>([&] { wide.plan(&policy, {40, true}); }), "num_sms"));
  policy.kernel.reset();
  policy.cluster_n = 2;
  policy.cluster_m = 1;
  const PlannedProduct big(4096, 7168, 512);
  CHECK(big.plan(&policy, {2, true}).cluster == 2);
  CHECK(contains(message_of<ValueError>([&] { big.plan(&policy, {1, true}); }), "num_sms"));
}

TEST_CASE("num_sms of the call and of the policy: the smaller counts") {
  Policy policy;
  CHECK(plan::sm_budget(132, 0, nullptr).count == 132);
  CHECK_FALSE(plan::sm_budget(132, 0, &policy).limited);
  CHECK_FALSE(plan::sm_budget(132, 500, nullptr).limited);
  CHECK(plan::sm_budget(132, 100, nullptr).count == 100);
  policy.num_sms = 60;
  CHECK(plan::sm_budget(132, 0, &policy).count == 60);
  CHECK(plan::sm_budget(132, 100, &policy).limited);
  CHECK(plan::sm_budget(132, 7, &policy).count == 7);
  policy.num_sms = 1 << 30;
  CHECK(plan::sm_budget(132, 0, &policy).count == 132);
  policy.num_sms = 0;
  CHECK(plan::sm_budget(132, 50, &policy).count == 50);
  policy.num_sms = -1;
  CHECK(contains(message_of<ValueError>([&] { plan::sm_budget(132, 0, &policy); }),
                 "policy.num_sms: found"));
  CHECK_THROWS_AS(plan::sm_budget(132, -1, nullptr), ValueError);
}

TEST_CASE("candidates are those of the kernels that can take the problem") {
  const auto candidates = [](const PlannedProduct& p) {
    return plan::gemm_candidates(make_problem(p.args), p.args, {132, false});
  };
  CHECK(candidates(PlannedProduct(8, 7168, 2048)).decode.size() > 3);
  CHECK(candidates(PlannedProduct(8, 7168, 2048)).persistent.size() > 3);
  CHECK(candidates(PlannedProduct(200, 7168, 2048)).decode.empty());
  CHECK(candidates(PlannedProduct(8, 7168, 0)).persistent.empty());
}
