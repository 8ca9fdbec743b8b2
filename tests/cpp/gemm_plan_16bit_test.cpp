// What a product of 16-bit operands becomes: kernel, config, epilogue, batch; no driver, no GPU, no
// memory.
#include <doctest/doctest.h>

#include "plan/gemm_plan.hpp"
#include "planned_product.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using device::Epilogue;
using plan::GemmKernel;
using plan::GemmPlan;
using test::contains;
using test::PlannedProduct;

namespace {

void is_general(const PlannedProduct& p, const char* reason) {
  const GemmPlan plan = p.plan();
  CHECK(plan.kernel == GemmKernel::general);
  INFO(plan.reason);
  CHECK(contains(plan.reason, reason));
}

}  // namespace

TEST_CASE("16-bit operands take the persistent kernel in every layout") {
  for (DType dtype : {DType::bfloat16, DType::float16}) {
    for (Layout layout : {Layout::nt, Layout::nn, Layout::tn, Layout::tt}) {
      const GemmPlan plan = PlannedProduct(4096, 2112, 7168, dtype, layout).plan();
      REQUIRE(plan.kernel == GemmKernel::persistent);
      const device::GemmConfig& c = plan.choice.config;
      CHECK(plan.spec.name ==
            (dtype == DType::bfloat16 ? "deepgemm_bf16_gemm" : "deepgemm_f16_gemm"));
      CHECK(device::broken_rule(c) == nullptr);
      CHECK(c.a_mn_major == (layout == Layout::tn || layout == Layout::tt));
      CHECK(c.b_mn_major == (layout == Layout::nn || layout == Layout::tn));
      CHECK(c.stage_k() == 64);
      CHECK(plan.reason == "16-bit operands");
    }
  }
}

TEST_CASE("16-bit operands: K in units of 16 bytes where an operand is K-major, else any") {
  const DType bf16 = DType::bfloat16;
  CHECK(PlannedProduct(512, 256, 77, bf16, Layout::tn).plan().kernel == GemmKernel::persistent);
  is_general(PlannedProduct(512, 256, 76, bf16), "K is not a multiple of 8");
  is_general(PlannedProduct(512, 256, 76, bf16, Layout::nn), "K is not a multiple of 8");
  is_general(PlannedProduct(512, 252, 128, bf16, Layout::nn), "b: ");
  is_general(PlannedProduct(508, 256, 128, bf16, Layout::tn), "a: ");
  CHECK(PlannedProduct(508, 252, 128, bf16).plan().kernel == GemmKernel::persistent);
  PlannedProduct p(512, 256, 128, bf16);
  SUBCASE("strides along both dimensions") {
    p.args.a.values.strides = {512, 2};
    is_general(p, "neither dimension of a is contiguous");
  }
  SUBCASE("one operand of another dtype") {
    p.args.a.values.dtype = DType::float16;
    is_general(p, "neither both float8 nor of one 16-bit dtype");
  }
  SUBCASE("factors") {
    PlannedProduct::set_factors(p.args.b, 5, {1, 128}, 256, 128);
    is_general(p, "16-bit operands have factors");
  }
}

TEST_CASE("16-bit operands: how c gets into out") {
  PlannedProduct p(4096, 2112, 7168, DType::bfloat16, Layout::tn);
  auto epilogue = [&] { return p.plan().choice.config.epilogue; };
  CHECK(epilogue() == Epilogue::store);
  p.args.c = p.args.out;
  CHECK(epilogue() == Epilogue::accumulate);  // TMA's own addition would round twice
  p.set_out(DType::float32);
  p.args.c = p.args.out;
  CHECK(epilogue() == Epilogue::reduce);
  p.add_c_of_its_own();
  CHECK(epilogue() == Epilogue::accumulate);
  p.set_out(DType::float16);
  p.add_c_of_its_own();
  CHECK(epilogue() == Epilogue::general);
}

TEST_CASE("a batch of 16-bit operands is one launch, where TMA takes its distances") {
  const PlannedProduct p(512, 256, 128, DType::bfloat16, Layout::nn);
  plan::GemmBatch batch;
  batch.count = 48;
  batch.a = 512 * 128, batch.b = 128 * 256, batch.out = 512 * 256;
  auto planned = [&](const PlannedProduct& product) {
    return plan::make_gemm_plan(make_problem(product.args), product.args, nullptr, {132, false},
                                batch);
  };
  GemmPlan made = planned(p);
  CHECK(made.whole_batch);
  CHECK(made.choice.config.epilogue == Epilogue::store);
  CHECK(made.choice.tiles * made.choice.config.tile_m * made.choice.config.tile_n ==
        48 * 512 * 256);
  CHECK(made.grid > p.plan().grid);
  CHECK_FALSE(p.plan().whole_batch);
  SUBCASE("b is one matrix for all") {
    batch.b = 0;
    CHECK(planned(p).whole_batch);
  }
  SUBCASE("a lies at odd distances") {
    batch.a += 1;
    made = planned(p);
    CHECK_FALSE(made.whole_batch);
    CHECK(made.kernel == GemmKernel::persistent);  // of the first product
  }
  SUBCASE("out lies at odd distances") {
    batch.out += 1;
    CHECK(planned(p).whole_batch);
    CHECK(planned(p).choice.config.epilogue == Epilogue::general);
  }
  SUBCASE("one c for all") {
    PlannedProduct with_c = p;
    with_c.add_c_of_its_own();
    CHECK(planned(with_c).choice.config.epilogue == Epilogue::general);
    batch.c = 512 * 256;
    CHECK(planned(with_c).choice.config.epilogue == Epilogue::accumulate);
  }
  SUBCASE("float8") { CHECK_FALSE(planned(PlannedProduct(512, 256, 128)).whole_batch); }
}

TEST_CASE("few rows of 16-bit operands take the decode kernel") {
  const GemmPlan plan = PlannedProduct(8, 7168, 2048, DType::bfloat16).plan();
  CHECK(plan.kernel == GemmKernel::decode);
  CHECK(plan.spec.name == "deepgemm_bf16_gemm_decode");
  CHECK(plan.reason == "16-bit operands, few tokens");
  CHECK(plan.decode.config.block_elements() == 64);
  CHECK(plan.decode.shared_bytes == device::decode_map(plan.decode.config).fixed);  // no factors
  const DType f16 = DType::float16;
  CHECK(PlannedProduct(8, 7168, 2048, f16).plan().spec.name == "deepgemm_f16_gemm_decode");
  CHECK(PlannedProduct(8, 7168, 2080, f16).plan().kernel == GemmKernel::persistent);
  CHECK(PlannedProduct(8, 7168, 2048, f16, Layout::nn).plan().kernel == GemmKernel::persistent);
}
