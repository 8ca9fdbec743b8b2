// What a grouped product becomes: layout of the groups, kernel, config; no driver, no GPU, no
// memory.
#include "plan/grouped_plan.hpp"

#include <doctest/doctest.h>

#include "fake_driver/fake_driver.hpp"
#include "jit_fixture.hpp"
#include "plan/plan_cache.hpp"
#include "planned_product.hpp"
#include "recorded_launches.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using device::Epilogue;
using device::GroupVectorForm;
using device::Schedule;
using plan::GemmPlan;
using plan::GroupedCall;
using test::contains;
using test::gpu;
using test::message_of;

namespace {

TensorView view(std::uintptr_t place, DType dtype, const std::vector<std::int64_t>& shape) {
  TensorView made;
  made.data = reinterpret_cast<void*>(place << 48);
  made.dtype = dtype;
  made.device = gpu;
  made.rank = static_cast<int>(shape.size());
  std::int64_t stride = 1;
  for (int i = made.rank - 1; i >= 0; --i) {
    made.shape[i] = shape[static_cast<std::size_t>(i)];
    made.strides[i] = stride;
    stride *= made.shape[i];
  }
  return made;
}

// E4M3, (1, 128) factors of a with rows contiguous and (128, 128) of b, bfloat16 out.
void fill(RowGroupArgs& args, std::int64_t groups, std::int64_t m, std::int64_t n, std::int64_t k,
          bool masked) {
  using Shape = std::vector<std::int64_t>;
  const DType f8 = DType::float8_e4m3fn, f32 = DType::float32;
  args.a.values = view(1, f8, masked ? Shape{groups, m, k} : Shape{m, k});
  args.b.values = view(2, f8, {groups, n, k});
  args.out = view(3, DType::bfloat16, masked ? Shape{groups, m, n} : Shape{m, n});
  args.a.sf = view(4, f32, masked ? Shape{groups, m, k / 128} : Shape{m, k / 128});
  args.b.sf = view(5, f32, {groups, (n + 127) / 128, k / 128});
  const int row = masked ? 1 : 0;
  args.a.sf->strides[row] = 1;
  args.a.sf->strides[row + 1] = fast_scale_pitch(m);
  if (masked) args.a.sf->strides[0] = k / 128 * fast_scale_pitch(m);
}

GroupedArgs rows_args(GroupForm form = GroupForm::sizes) {
  GroupedArgs args;
  fill(args, 8, 4096, 7168, 2048, false);
  args.form = form;
  args.groups = view(6, DType::int64, {form == GroupForm::labels ? 4096 : 8});
  if (form == GroupForm::offsets) args.groups = view(6, DType::int64, {9});
  return args;
}

MaskedArgs masked_args() {
  MaskedArgs args;
  fill(args, 8, 1024, 7168, 2048, true);
  args.rows = view(6, DType::int32, {8});
  return args;
}

template <class Args>
GroupedCall call_of(const Args& args) {
  return plan::grouped_call(make_problem(args), args);
}

GemmPlan plan_of(const GroupedCall& call, const Policy* policy = nullptr, int sms = 132) {
  REQUIRE(plan::why_not_persistent(call) == "");
  GemmPlan made = plan::make_grouped_plan(call, policy, {sms, false});
  CHECK(made.spec.name == "deepgemm_fp8_gemm");
  CHECK(device::broken_rule(made.choice.config) == nullptr);
  CHECK(made.choice.config.cluster() == 1);
  CHECK(made.grid >= 1);
  CHECK(made.grid <= sms);
  return made;
}

}  // namespace

TEST_CASE("rows of one matrix: b has a matrix per group, the others one for all") {
  const GroupedCall call = call_of(rows_args());
  CHECK(call.layout.groups == 8);
  CHECK(call.layout.a_matrices() == 1);
  CHECK(call.layout.b == 7168 * 2048);
  CHECK(call.layout.sfb == 56 * 16);
  CHECK(call.layout.a == 0);
  CHECK(call.layout.out == 0);
  CHECK(call.layout.vector.form == GroupVectorForm::sizes);
  CHECK(call.layout.vector.is_64_bit == 1);
  CHECK(call.layout.vector.rows == 4096);
  CHECK(call.expected == 512);
  const GemmPlan plan = plan_of(call);
  CHECK(plan.choice.config.schedule == Schedule::groups);
  CHECK(plan.choice.config.epilogue == Epilogue::store);
  CHECK(plan.choice.config.scales_by_tma);
  CHECK(plan.choice.config.row_align() == 4);  // where TMA can start
}

TEST_CASE("each form of the vector is named to the kernel; labels have a schedule of their own") {
  CHECK(call_of(rows_args(GroupForm::offsets)).layout.vector.form == GroupVectorForm::offsets);
  GroupedArgs ends = rows_args(GroupForm::ends);
  ends.alignment = 128;
  CHECK(call_of(ends).layout.vector.form == GroupVectorForm::ends);
  CHECK(call_of(ends).layout.vector.alignment == 128);
  const GroupedCall labels = call_of(rows_args(GroupForm::labels));
  CHECK(labels.layout.vector.form == GroupVectorForm::labels);
  CHECK(plan_of(labels).choice.config.schedule == Schedule::labels);
}

TEST_CASE("masks: every operand is a stack, and expected rows choose the tile") {
  MaskedArgs args = masked_args();
  GroupedCall call = call_of(args);
  CHECK(call.layout.a_matrices() == 8);
  CHECK(call.layout.a == 1024 * 2048);
  CHECK(call.layout.sfa == 16 * 1024);
  CHECK(call.layout.out == 1024 * 7168);
  CHECK(call.layout.vector.form == GroupVectorForm::masks);
  CHECK(call.expected == 1024);
  CHECK(plan_of(call).choice.config.epilogue == Epilogue::store);
  const int wide = plan_of(call).choice.config.tile_m;
  args.expected_rows = 20;
  call = call_of(args);
  CHECK(call.expected == 20);
  CHECK(plan_of(call).choice.config.tile_m < wide);
  args.expected_rows = std::int64_t{1} << 62;  // more than there can be
  CHECK(call_of(args).expected == 1024);
}

TEST_CASE("FP32 out leaves by TMA as well") {
  MaskedArgs args = masked_args();
  args.out = view(3, DType::float32, {8, 1024, 7168});
  CHECK(plan_of(call_of(args)).choice.config.epilogue == Epilogue::store);
}

TEST_CASE("groups of K: out has a matrix per group, a and b have one; C in place by TMA") {
  KGroupedArgs args;
  args.a = {view(1, DType::float8_e4m3fn, {512, 4096}), view(4, DType::float32, {512, 40}), {}};
  args.b = {view(2, DType::float8_e4m3fn, {768, 4096}), view(5, DType::float32, {768, 36}), {}};
  args.out = view(3, DType::float32, {8, 512, 768});
  args.k_sizes = view(6, DType::int32, {8});
  args.a.sf->strides = {1, 512};
  args.b.sf->strides = {1, 768};
  GroupedCall call = call_of(args);
  CHECK(call.layout.a_matrices() == 1);
  CHECK(call.layout.b_matrices() == 1);
  CHECK(call.layout.out_matrices() == 8);
  CHECK(call.layout.out == 512 * 768);
  CHECK(call.layout.blocks == 36);
  CHECK(call.expected == 512);
  CHECK(plan_of(call).choice.config.schedule == Schedule::k_groups);
  CHECK(plan_of(call).choice.config.epilogue == Epilogue::store);
  args.c = args.out;
  CHECK(plan_of(call_of(args)).choice.config.epilogue == Epilogue::reduce);
  args.c->data = reinterpret_cast<void*>(std::uintptr_t{8} << 48);
  CHECK(plan_of(call_of(args)).choice.config.epilogue == Epilogue::general);
}

TEST_CASE("a stack of one has no distance between groups") {
  MaskedArgs args;
  fill(args, 1, 64, 128, 256, true);
  args.rows = view(6, DType::int32, {1});
  const GroupedCall call = call_of(args);
  CHECK(call.layout.a == 0);
  CHECK(call.layout.b == 0);
  plan_of(call);
}

TEST_CASE("bias and activation take the general epilogue, which knows the group") {
  GroupedArgs args = rows_args();
  args.bias = view(7, DType::float32, {8, 7168});
  args.activation = Activation::silu;
  const GroupedCall call = call_of(args);
  CHECK(call.layout.bias == 7168);
  CHECK(plan_of(call).choice.config.epilogue == Epilogue::general);
}

TEST_CASE("C is added in the general epilogue, whatever it is for dense products") {
  MaskedArgs args = masked_args();
  args.out.dtype = DType::float32;
  args.c = args.out;
  const GroupedCall call = call_of(args);
  CHECK(call.layout.c == 1024 * 7168);
  CHECK(plan_of(call).choice.config.epilogue == Epilogue::general);
}

TEST_CASE("row-major factors of a are loaded by warps, others of masks by TMA") {
  MaskedArgs args = masked_args();
  CHECK(plan_of(call_of(args)).choice.config.scales_by_tma);
  args.a.sf->strides = {16 * 1024, 16, 1};
  CHECK_FALSE(plan_of(call_of(args)).choice.config.scales_by_tma);
}

TEST_CASE("no more CTAs than tiles that there can be, nor than SMs") {
  GroupedArgs args;
  fill(args, 2, 10, 64, 256, false);
  args.groups = view(6, DType::int32, {2});
  CHECK(plan_of(call_of(args)).grid <= 6);
  CHECK(plan_of(call_of(rows_args()), nullptr, 7).grid == 7);
}

TEST_CASE("a policy picks the tile, and an illegal one is refused with its rule") {
  Policy policy;
  policy.tile_m = 64;
  policy.tile_n = 64;
  CHECK(plan_of(call_of(rows_args()), &policy).choice.config.tile_m == 64);
  Policy cluster;
  cluster.cluster_n = 2;
  const std::string message = message_of<ValueError>(
      [&] { plan::make_grouped_plan(call_of(rows_args()), &cluster, {132, false}); });
  CHECK(contains(message, "a grouped schedule has no clusters"));
  Policy raster;
  raster.group = 4;
  CHECK(plan_of(call_of(rows_args()), &raster).choice.raster_group == 4);
  raster.group = 1 << 30;  // no more than there are
  CHECK(plan_of(call_of(rows_args()), &raster).choice.raster_group <= 4096 / 64);
  raster.raster_along_n = true;
  CHECK(contains(message_of<ValueError>(
                     [&] { plan::make_grouped_plan(call_of(rows_args()), &raster, {132, false}); }),
                 "the tiles of a group lie in bands along M"));
}

TEST_CASE("one column of groups of K has factors per column, not per block") {
  KGroupedArgs args;
  args.a = {view(1, DType::float8_e4m3fn, {70, 192}), view(4, DType::float32, {70, 2}), {}};
  args.b = {view(2, DType::float8_e4m3fn, {1, 192}), view(5, DType::float32, {1, 2}), {}};
  args.out = view(3, DType::float32, {2, 70, 1});
  args.k_sizes = view(6, DType::int32, {2});
  CHECK(plan_of(call_of(args)).choice.config.column_scales);
}

TEST_CASE("what the persistent kernel does not take is named") {
  GroupedArgs args = rows_args();
  args.a.values.dtype = DType::float8_e5m2;
  CHECK(contains(plan::why_not_persistent(call_of(args)), "not both float8_e4m3fn"));
  args = rows_args();
  args.b.values.strides[0] += 8;  // a distance that TMA cannot take
  CHECK(contains(plan::why_not_persistent(call_of(args)), "b: "));
  args = rows_args();
  args.a.granularity = args.b.granularity = per_tensor;
  args.a.sf = args.b.sf = view(4, DType::float32, {1, 1});
  CHECK(contains(plan::why_not_persistent(call_of(args)), "factors of granularity"));
}

TEST_CASE("16-bit operands: rows and masks with b in either major, groups of K of any layout") {
  const DType bf16 = DType::bfloat16;
  MaskedArgs args = masked_args();
  args.a = {view(1, bf16, {8, 1024, 2048}), {}, {}};
  args.b = {view(2, bf16, {8, 2048, 7168}), {}, {}};
  args.layout = Layout::nn;
  GroupedCall call = call_of(args);
  REQUIRE(plan::why_not_persistent(call) == "");
  GemmPlan made = plan::make_grouped_plan(call, nullptr, {132, false});
  CHECK(made.spec.name == "deepgemm_bf16_gemm");
  CHECK(made.choice.config.b_mn_major);
  CHECK(made.choice.config.row_align() == 1);  // there are no factors to load
  CHECK(made.choice.config.epilogue == Epilogue::store);
  KGroupedArgs along_k;
  along_k.layout = Layout::tn;
  along_k.a = {view(1, bf16, {333, 512}), {}, {}};
  along_k.b = {view(2, bf16, {333, 256}), {}, {}};
  along_k.out = view(3, DType::float32, {4, 512, 256});
  along_k.k_sizes = view(6, DType::int32, {4});
  call = call_of(along_k);
  REQUIRE(plan::why_not_persistent(call) == "");
  made = plan::make_grouped_plan(call, nullptr, {132, false});
  CHECK(made.choice.config.k_grouped());
  CHECK(made.choice.config.k_align() == 1);  // K is not contiguous: groups begin anywhere
  CHECK_FALSE(made.choice.config.column_scales);
}

TEST_CASE("16-bit rows of groups whose rows are contiguous, and not K, are the general kernel's") {
  GroupedArgs args = rows_args();
  args.a = {view(1, DType::bfloat16, {4096, 2048}), {}, {}};
  args.b = {view(2, DType::bfloat16, {8, 7168, 2048}), {}, {}};
  CHECK(plan::why_not_persistent(call_of(args)) == "");
  args.a.values.strides[0] = 1, args.a.values.strides[1] = 4096;
  CHECK(contains(plan::why_not_persistent(call_of(args)), "a is not K-major"));
}

namespace {

KGroupedArgs gradient_args(std::int64_t sf_blocks, std::int64_t m = 130) {
  KGroupedArgs args;
  args.a = {view(1, DType::float8_e4m3fn, {m, 128}), view(4, DType::float32, {m, sf_blocks}), {}};
  args.b = {view(2, DType::float8_e4m3fn, {256, 128}), view(5, DType::float32, {256, 1}), {}};
  args.a.sf->strides[0] = 1, args.a.sf->strides[1] = m;
  args.out = view(3, DType::float32, {1, m, 256});
  args.k_sizes = view(6, DType::int32, {1});
  return args;
}

std::vector<test::Variant> calls_of_every_kind() {
  std::vector<test::Variant> calls;
  const auto rows = [&](const char* what, auto&& change, CallOptions options = {}) {
    GroupedArgs args = rows_args();
    change(args);
    calls.push_back({what, [args, options] { grouped_gemm(args, options); }});
  };
  rows("nothing", [](GroupedArgs&) {});
  rows("labels", [](GroupedArgs& a) { a = rows_args(GroupForm::labels); });
  rows("offsets", [](GroupedArgs& a) { a = rows_args(GroupForm::offsets); });
  rows("ends", [](GroupedArgs& a) { a = rows_args(GroupForm::ends); });
  rows("alignment", [](GroupedArgs& a) { a = rows_args(GroupForm::ends), a.alignment = 128; });
  rows("dtype of the vector", [](GroupedArgs& a) { a.groups = view(6, DType::int32, {8}); });
  rows("stride of the vector", [](GroupedArgs& a) { a.groups.strides[0] = 2; });
  rows("num_sms", [](GroupedArgs&) {}, {.num_sms = 7});
  rows("pdl", [](GroupedArgs&) {}, {.pdl = true});
  rows("dtype of out", [](GroupedArgs& a) { a.out = view(3, DType::float32, {4096, 7168}); });
  rows("stride of out", [](GroupedArgs& a) { a.out.strides[0] += 1; });
  rows("stride of sfa", [](GroupedArgs& a) { a.a.sf->strides[0] = 16, a.a.sf->strides[1] = 1; });
  // Only the general kernel takes it.
  rows("distance of b", [](GroupedArgs& a) { a.b.values.strides[0] += 8; });
  rows("c", [](GroupedArgs& a) { a.c = view(7, DType::bfloat16, {4096, 7168}); });
  rows("bias", [](GroupedArgs& a) { a.bias = view(8, DType::float32, {8, 7168}); });
  rows("alpha", [](GroupedArgs& a) { a.alpha = 2; });
  rows("address of a", [](GroupedArgs& a) { test::PlannedProduct::shift(a.a.values, 1); });
  const auto masked = [&](const char* what, auto&& change) {
    MaskedArgs args = masked_args();
    change(args);
    calls.push_back({what, [args] { masked_gemm(args); }});
  };
  masked("masked", [](MaskedArgs&) {});
  masked("expected_rows", [](MaskedArgs& a) { a.expected_rows = 20; });
  masked("distance of out", [](MaskedArgs& a) { a.out.strides[0] += 1; });
  masked("distance of sfa", [](MaskedArgs& a) { a.a.sf->strides[0] += 1; });
  masked("distance of a", [](MaskedArgs& a) { a.a.values.strides[0] += 1; });
  // The two gradients differ in nothing but their blocks of factors: one block has no pitch along
  // K, two have one that TMA cannot take.
  for (std::int64_t blocks : {1, 2}) {
    const KGroupedArgs args = gradient_args(blocks);
    calls.push_back({"gradients", [args] { k_grouped_gemm(args); }});
  }
  return calls;
}

}  // namespace

TEST_CASE("whatever was planned before, a grouped call launches what it would as the first one") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::use_fake_driver();
  const std::vector<test::Variant> calls = calls_of_every_kind();
  test::check_repeats(calls);
  CHECK_FALSE(test::launches_of(calls.back().call) ==
              test::launches_of(calls[calls.size() - 2].call));
}

TEST_CASE("a repeated grouped call encodes nothing, and an out that overlaps is refused") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  GroupedArgs args = rows_args();
  grouped_gemm(args);
  const int encoded = state.count("cuTensorMapEncodeTiled");
  for (TensorView* view :
       {&args.a.values, &args.b.values, &*args.a.sf, &*args.b.sf, &args.out, &args.groups}) {
    test::PlannedProduct::shift(*view, 1 << 20);
  }
  const auto found = test::launches_of([&] { grouped_gemm(args); });
  CHECK(state.count("cuTensorMapEncodeTiled") == encoded);
  CHECK((found == test::launches_in_a_new_thread([&] { grouped_gemm(args); })));
  args.groups.data = static_cast<char*>(args.out.data) + 64;
  CHECK(contains(message_of<ValueError>([&] { grouped_gemm(args); }),
                 "out: found memory that overlaps group_sizes"));
}
