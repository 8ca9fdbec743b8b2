// What grouped products hand to the general kernel, against the fake driver and the fake NVRTC.
#include "plan/general_grouped.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "contains.hpp"
#include "fake_driver/fake_driver.hpp"
#include "jit_fixture.hpp"
#include "planned_product.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using device::GroupSchedule;
using device::GroupVectorForm;
using plan::GeneralGrouped;
using test::contains;
using test::gpu;
using test::message_of;

namespace {

using Shape = std::initializer_list<std::int64_t>;

TensorView view(std::uintptr_t place, DType dtype, Shape shape) {
  return make_view(reinterpret_cast<void*>(place << 48), dtype, shape, gpu);
}

// 5 groups of b [N, K], 700 rows, everything that a call can have.
void set_common(RowGroupArgs& args) {
  args.b = {view(2, DType::float8_e4m3fn, {5, 300, 512}), view(3, DType::float32, {5, 3, 4}), {}};
  args.bias = view(4, DType::float32, {5, 300});
}

GroupedArgs rows_args(GroupForm form, Shape vector) {
  GroupedArgs args;
  set_common(args);
  args.a = {view(1, DType::float8_e4m3fn, {700, 512}), view(5, DType::float32, {700, 4}), {}};
  args.out = view(6, DType::bfloat16, {700, 300});
  args.c = view(7, DType::float32, {700, 300});
  args.groups = view(8, DType::int32, vector);
  args.form = form;
  return args;
}

MaskedArgs masked_args() {
  MaskedArgs args;
  set_common(args);
  args.a = {view(1, DType::float8_e4m3fn, {5, 700, 512}), view(5, DType::float32, {5, 700, 4}), {}};
  args.out = view(6, DType::bfloat16, {5, 700, 300});
  args.c = view(7, DType::float32, {5, 700, 300});
  args.rows = view(8, DType::int64, {5});
  return args;
}

KGroupedArgs k_args() {
  KGroupedArgs args;
  args.a = {view(1, DType::float8_e4m3fn, {70, 512}), view(5, DType::float32, {70, 9}), {}};
  args.b = {view(2, DType::float8_e4m3fn, {130, 512}), view(3, DType::float32, {130, 8}), {}};
  args.out = view(6, DType::float32, {5, 70, 130});
  args.c = view(7, DType::float32, {5, 70, 130});
  args.k_sizes = view(8, DType::int32, {5});
  return args;
}

template <class Args>
GeneralGrouped made(const Args& args) {
  return plan::general_grouped(plan::grouped_call(make_problem(args), args));
}

}  // namespace

TEST_CASE("rows: a, out and c are one matrix, b, its factors and bias are stacks") {
  const GeneralGrouped call = made(rows_args(GroupForm::sizes, {5}));
  CHECK(call.config.schedule == GroupSchedule::rows);
  const device::GeneralGroupedParams& p = call.params;
  CHECK(p.product.m == 700);
  CHECK(p.product.n == 300);
  CHECK(p.product.k == 512);
  CHECK(p.a_group == 0);
  CHECK(p.sfa_group == 0);
  CHECK(p.b_group == 300 * 512);
  CHECK(p.sfb_group == 12);
  CHECK(p.bias_group == 300);
  CHECK(p.out_group == 0);
  CHECK(p.c_group == 0);
  CHECK(p.groups.form == GroupVectorForm::sizes);
  CHECK(p.groups.groups == 5);
  CHECK(p.groups.rows == 700);
  CHECK(p.groups.is_64_bit == 0);
  CHECK(call.tiles == (11 + 5) * 5);
}

TEST_CASE("the other forms") {
  CHECK(made(rows_args(GroupForm::offsets, {6})).params.groups.form == GroupVectorForm::offsets);
  const GeneralGrouped labels = made(rows_args(GroupForm::labels, {700}));
  CHECK(labels.config.schedule == GroupSchedule::labels);
  CHECK(labels.params.groups.form == GroupVectorForm::labels);
  CHECK(labels.tiles == 11 * 5);
  GroupedArgs args = rows_args(GroupForm::ends, {5});
  args.alignment = 128;
  args.groups.strides[0] = 3;
  const GeneralGrouped ends = made(args);
  CHECK(ends.params.groups.form == GroupVectorForm::ends);
  CHECK(ends.params.groups.alignment == 128);
  CHECK(ends.params.groups.step == 3);
  args.alignment = std::int64_t{1} << 40;
  CHECK(made(args).params.groups.alignment == 0x7FFFFFFF - 1024);
}

TEST_CASE("masked: every operand is a stack") {
  const GeneralGrouped call = made(masked_args());
  CHECK(call.config.schedule == GroupSchedule::rows);
  const device::GeneralGroupedParams& p = call.params;
  CHECK(p.a_group == 700 * 512);
  CHECK(p.sfa_group == 700 * 4);
  CHECK(p.out_group == 700 * 300);
  CHECK(p.c_group == 700 * 300);
  CHECK(p.groups.form == GroupVectorForm::masks);
  CHECK(p.groups.is_64_bit == 1);
  CHECK(call.tiles == 5 * 11 * 5);
}

TEST_CASE("groups along K: slices of a and b, and as many blocks as both have factors") {
  const GeneralGrouped call = made(k_args());
  CHECK(call.config.schedule == GroupSchedule::k);
  const device::GeneralGroupedParams& p = call.params;
  CHECK(p.a_group == 0);
  CHECK(p.b_group == 0);
  CHECK(p.out_group == 70 * 130);
  CHECK(p.c_group == 70 * 130);
  CHECK(p.groups.rows == 512);
  CHECK(p.scale_blocks == 8);
  CHECK(call.tiles == 5 * 2 * 3);
  KGroupedArgs plain = k_args();
  plain.a.sf.reset(), plain.b.sf.reset(), plain.c.reset();
  CHECK(made(plain).params.scale_blocks == 0x7FFFFFFF);
  CHECK(made(plain).params.c_group == 0);
}

TEST_CASE("what the schedules cannot count is refused by name") {
  const std::int64_t huge = std::int64_t{1} << 31;
  GroupedArgs rows = rows_args(GroupForm::sizes, {5});
  GroupedProblem problem = make_problem(rows);
  const auto refused = [&](const auto& args) {
    problem.kind = make_problem(args).kind;
    return message_of<ValueError>(
        [&] { plan::general_grouped(plan::grouped_call(problem, args)); });
  };
  problem.product.m = huge;
  CHECK(contains(refused(rows), "a: found M = 2147483648, need 2147482623 at most"));
  problem.product.m = 700, problem.product.n = huge;
  CHECK(contains(refused(rows), "b: found N = 2147483648"));
  problem.product.m = huge / 2, problem.product.n = 64 * 70;
  CHECK(contains(refused(rows), "out: found 1073741824 x 4480 in 5 groups, "));
  CHECK(contains(refused(rows), "need 1073741823 tiles at most"));
  CHECK(contains(refused(masked_args()), "need 1073741823 tiles at most"));
  CHECK(contains(refused(k_args()), "need 1073741823 tiles at most"));
  problem.product.m = 1, problem.product.k = huge;
  CHECK(contains(refused(k_args()), "a: found K = 2147483648"));
  problem.kind = GroupKind::rows;
  CHECK_NOTHROW(plan::general_grouped(plan::grouped_call(problem, rows)));
  problem.product.k = 1, problem.groups = huge;
  CHECK(contains(refused(k_args()), "k_sizes: found G = 2147483648"));
}

TEST_CASE("a call is one launch on its stream, and asks the device for nothing") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  const Stream stream = reinterpret_cast<Stream>(0x77);
  Policy policy;
  policy.kernel = "general";
  grouped_gemm(rows_args(GroupForm::sizes, {5}), {.stream = stream, .policy = &policy});
  REQUIRE(state.launches.size() == 1);
  CHECK(state.launches[0].stream == stream);
  CHECK(state.launches[0].grid == 80);
  CHECK(state.launches[0].block == 256);
  CHECK(state.launches[0].attributes.empty());
  grouped_gemm(rows_args(GroupForm::labels, {700}), {.policy = &policy, .num_sms = 7, .pdl = true});
  masked_gemm(masked_args(), {.policy = &policy});
  k_grouped_gemm(k_args(), {.policy = &policy});
  REQUIRE(state.launches.size() == 4);
  CHECK(state.launches[1].grid == 7);
  CHECK(state.launches[1].attributes.empty());
  CHECK(state.launches[2].grid == 132);
  CHECK(state.launches[3].grid == 30);
  for (const auto& [name, count] : state.calls) {
    INFO(name);
    CHECK(name.find("Synchronize") == std::string::npos);
    CHECK(name.find("Memcpy") == std::string::npos);
    CHECK(name.find("IsCapturing") == std::string::npos);
  }
}

TEST_CASE("with DEEPGEMM_CHECK_GROUPS a right call is the same launch, behind one look") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  const test::Environment set("DEEPGEMM_CHECK_GROUPS", "1");
  const Stream stream = reinterpret_cast<Stream>(0x77);
  Policy policy;
  policy.kernel = "general";
  GroupedArgs args = rows_args(GroupForm::sizes, {5});
  std::vector<std::int32_t> sizes = {100, 0, 300, 0, 300};
  args.groups.data = sizes.data();
  const std::size_t before = state.launches.size();
  grouped_gemm(args, {.stream = stream, .policy = &policy});
  REQUIRE(state.launches.size() == before + 1);
  CHECK(state.launches.back().stream == stream);
  CHECK(state.count("cuMemcpyDtoHAsync") == 1);
  CHECK(state.count("cuStreamSynchronize") == 1);
  sizes[4] = 301;
  CHECK(contains(message_of<ValueError>([&] { grouped_gemm(args, {.stream = stream}); }),
                 "group_sizes: found 301 for group 4 after a sum of 400"));
  CHECK(state.launches.size() == before + 1);
}

TEST_CASE("policies: a kernel by name, and num_sms; what cannot take the call is refused") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  Policy policy;
  MaskedArgs args = masked_args();
  const auto message = [&] {
    return message_of<ValueError>([&] { masked_gemm(args, {.policy = &policy}); });
  };
  policy.kernel = "general", policy.num_sms = 9;
  CHECK(message().empty());
  CHECK(state.launches.back().grid == 9);
  CHECK(state.launches.back().block == 256);
  policy.kernel = "persistent", policy.tile_m = 128, policy.tile_n = 128;
  CHECK(message().empty());
  CHECK(state.launches.back().block == 384);
  const std::size_t before = state.launches.size();
  policy = {};
  policy.kernel = "decode";
  CHECK(contains(message(), "policy.kernel: found decode, need another kernel"));
  CHECK(contains(message(), "the product is grouped"));
  args.a.values.dtype = DType::float8_e5m2;
  policy.kernel = "persistent";
  CHECK(contains(message(), "policy.kernel: found persistent, need another kernel"));
  CHECK(contains(message(), "not both float8_e4m3fn"));
  policy.kernel.reset(), policy.tile_m = 128;
  CHECK(contains(message(), "policy.tile_m: found 128"));
  policy.tile_m.reset(), policy.stages = 4;
  CHECK(contains(message(), "policy.stages: found 4"));
  policy.stages.reset(), policy.num_sms = -1;
  CHECK(contains(message(), "policy.num_sms: found -1"));
  CHECK(state.launches.size() == before);
}
