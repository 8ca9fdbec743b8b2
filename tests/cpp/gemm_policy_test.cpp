// Policies: which kernel they ask for, and that no value of a field gets past the checks.
#include "plan/gemm_policy.hpp"

#include <doctest/doctest.h>

#include <climits>

#include "planned_product.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using plan::GemmKernel;
using test::contains;
using test::message_of;
using test::PlannedProduct;

namespace {

using Field = std::optional<int> Policy::*;
struct NamedField {
  const char* name;
  Field field;
};
constexpr NamedField fp8_fields[] = {
    {"tile_m", &Policy::tile_m},           {"tile_n", &Policy::tile_n},
    {"consumers_n", &Policy::consumers_n}, {"cluster_m", &Policy::cluster_m},
    {"cluster_n", &Policy::cluster_n},     {"group", &Policy::group},
};
constexpr NamedField decode_fields[] = {
    {"stage_blocks", &Policy::stage_blocks},
    {"ctas_per_sm", &Policy::ctas_per_sm},
};
constexpr NamedField shared_fields[] = {{"consumers", &Policy::consumers},
                                        {"stages", &Policy::stages},
                                        {"cluster_k", &Policy::cluster_k}};

Policy with(Field field, int value) {
  Policy policy;
  policy.*field = value;
  return policy;
}

std::string refusal(const PlannedProduct& p, const Policy& policy) {
  return message_of<ValueError>([&] { p.plan(&policy); });
}

}  // namespace

TEST_CASE("0, negative and huge values of every field are refused by name") {
  const PlannedProduct few(8, 7168, 2048), many(4096, 7168, 2048);
  const auto refused = [&](const NamedField& field, int value) {
    CAPTURE(field.name);
    CAPTURE(value);
    for (const PlannedProduct* p : {&few, &many}) {
      const std::string message = refusal(*p, with(field.field, value));
      CHECK(contains(message, std::string("policy.") + field.name + ": found "));
    }
  };
  for (int value : {0, -1, INT_MIN}) {
    for (const NamedField& field : fp8_fields) refused(field, value);
    for (const NamedField& field : decode_fields) refused(field, value);
    for (const NamedField& field : shared_fields) refused(field, value);
  }
  for (int value : {1 << 16, (1 << 16) + 128, INT_MAX}) {  // cast, the second would be 128
    for (const NamedField& field : fp8_fields) {
      if (field.field != &Policy::group) refused(field, value);
    }
    for (const NamedField& field : decode_fields) refused(field, value);
    for (const NamedField& field : shared_fields) refused(field, value);
  }
  CHECK(refusal(many, with(&Policy::stages, 258)) == "policy.stages: found 258, need 1 to 255");
}

TEST_CASE("values in range either make a legal plan or name the rule") {
  const PlannedProduct few(8, 7168, 2048), many(4096, 7168, 2048);
  const auto tried = [](const PlannedProduct& p, Field field, int value) {
    const Policy policy = with(field, value);
    try {
      const plan::GemmPlan plan = p.plan(&policy);
      if (plan.kernel == GemmKernel::persistent) {
        REQUIRE(device::broken_rule(plan.choice.config) == nullptr);
      } else {
        REQUIRE(device::broken_rule(plan.decode.config) == nullptr);
      }
    } catch (const ValueError& error) {
      REQUIRE(contains(error.what(), "policy"));
    }
  };
  for (int value = 1; value <= 256; ++value) {
    CAPTURE(value);
    for (const NamedField& field : fp8_fields) tried(many, field.field, value);
    for (const NamedField& field : shared_fields) tried(many, field.field, value);
    for (const NamedField& field : decode_fields) tried(few, field.field, value);
    for (const NamedField& field : shared_fields) tried(few, field.field, value);
  }
}

TEST_CASE("a group is no wider than the tiles along its dimension") {
  Policy policy = with(&Policy::group, INT_MAX);
  policy.tile_m = 128, policy.tile_n = 128, policy.cluster_m = 1, policy.cluster_n = 1;
  policy.raster_along_n = true;
  const PlannedProduct p(4096, 7168, 2048);
  CHECK(p.plan(&policy).choice.raster_group == 56);
  policy.raster_along_n = false;
  CHECK(p.plan(&policy).choice.raster_group == 32);
  policy.group = 3;
  CHECK(p.plan(&policy).choice.raster_group == 3);
  CHECK(PlannedProduct(4096, 8, 2048).plan().choice.raster_group >= 1);
}

TEST_CASE("a field that only one kernel has asks for that kernel") {
  const PlannedProduct few(8, 7168, 2048), middle(64, 7168, 2048);
  REQUIRE(few.plan().kernel == GemmKernel::decode);
  Policy policy;
  SUBCASE("tile_m") { policy = with(&Policy::tile_m, 64); }
  SUBCASE("group") { policy = with(&Policy::group, 4); }
  SUBCASE("ordered") { policy.ordered = false; }
  SUBCASE("raster_along_n") { policy.raster_along_n = true; }
  if (policy.tile_m || policy.group || policy.ordered || policy.raster_along_n) {
    CHECK(few.plan(&policy).kernel == GemmKernel::persistent);
  }
  const Policy shared = with(&Policy::ctas_per_sm, 2);
  CHECK(middle.plan(&shared).kernel == GemmKernel::decode);
  CHECK(middle.plan(&shared).decode.config.ctas_per_sm == 2);
}

TEST_CASE("consumers and stages fit both") {
  const Policy policy = with(&Policy::stages, 2);
  const plan::GemmPlan few = PlannedProduct(8, 7168, 2048).plan(&policy);
  CHECK(few.kernel == GemmKernel::decode);
  CHECK(few.decode.config.stages == 2);
  const plan::GemmPlan many = PlannedProduct(4096, 7168, 2048).plan(&policy);
  CHECK(many.kernel == GemmKernel::persistent);
  CHECK(many.choice.config.stages == 2);
}

TEST_CASE("fields of two kernels contradict each other") {
  const PlannedProduct p(8, 7168, 2048);
  Policy policy = with(&Policy::tile_m, 64);
  policy.ctas_per_sm = 2;
  CHECK(contains(refusal(p, policy), "policy.ctas_per_sm: found 2, need no such field"));
  CHECK(contains(refusal(p, policy), "policy.tile_m = 64 asks for the persistent kernel"));
  policy = with(&Policy::ctas_per_sm, 2);
  policy.kernel = "persistent";
  CHECK(contains(refusal(p, policy), "policy.ctas_per_sm"));
  policy = with(&Policy::ctas_per_sm, 2);
  policy.kernel = "general";
  CHECK(contains(refusal(p, policy), "policy.kernel = general"));
  policy = with(&Policy::stages, 2);
  policy.kernel = "general";
  CHECK(contains(refusal(p, policy), "policy.stages"));
  policy.kernel = "decode";
  CHECK(refusal(p, policy).empty());
  policy.kernel = "fastest";
  CHECK(contains(refusal(p, policy),
                 "policy.kernel: found fastest, need persistent, decode or general"));
}

TEST_CASE("a kernel that cannot take the problem is refused with the obstacle") {
  Policy policy;
  policy.kernel = "persistent";
  CHECK(contains(refusal(PlannedProduct(64, 7168, 0), policy), "K is 0"));
  policy.kernel = "decode";
  CHECK(contains(refusal(PlannedProduct(200, 7168, 2048), policy), "M is above 128"));
  CHECK(contains(refusal(PlannedProduct(8, 7168, 2048, {1, 128}), policy), "per column"));
  CHECK(contains(refusal(PlannedProduct(128, 7168, 1 << 20), policy), "table of factors"));
  policy = with(&Policy::ctas_per_sm, 2);
  CHECK(contains(refusal(PlannedProduct(8, 7168, 2064), policy),
                 "policy.ctas_per_sm: found 2, need another kernel"));
  policy = with(&Policy::tile_m, 128);
  PlannedProduct turned(256, 384, 512);
  turned.args.a.values.strides = {1, 256};
  CHECK(contains(refusal(turned, policy), "a is not K-major"));
  policy = with(&Policy::stages, 3);
  CHECK(contains(refusal(turned, policy), "policy.stages"));
  policy = {};
  policy.num_sms = 40;
  CHECK(turned.plan(&policy).kernel == GemmKernel::general);
  policy.kernel = "general";
  CHECK(PlannedProduct(8, 7168, 2048).plan(&policy).kernel == GemmKernel::general);
}
