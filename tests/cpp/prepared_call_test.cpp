// A call that was prepared before, against the fake driver: what it leaves out, and what it may
// not.
#include "plan/prepared_call.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <limits>
#include <string>

#include "contains.hpp"
#include "fake_driver/fake_driver.hpp"
#include "jit_fixture.hpp"
#include "planned_call.hpp"
#include "recorded_launches.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::bias_of;
using test::Call;
using test::contains;
using test::launches_of;
using test::message_of;
using test::PlannedProduct;

TEST_CASE("a repeated call encodes nothing, wherever its arrays lie and whatever its numbers are") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  for (std::int64_t m : {700, 8}) {  // the persistent kernel, and decode
    Call call;
    call.product = PlannedProduct(m, 648, 1024);  // neither extent fills its last tile
    GemmArgs& args = call.product.args;
    args.bias = bias_of(DType::float32, 1, 648);
    args.alpha = 2;
    call.run();
    const int encoded = state.count("cuTensorMapEncodeTiled");
    const auto looked_up = state.count("cuLibraryLoadData");
    for (int i = 0; i < 3; ++i) {
      for (TensorView* view :
           {&args.a.values, &args.b.values, &*args.a.sf, &*args.b.sf, &args.out, &*args.bias}) {
        PlannedProduct::shift(*view, 4096);
      }
      args.alpha += 1;
      const auto found = launches_of([&] { call.run(); });
      CHECK(state.count("cuTensorMapEncodeTiled") == encoded);
      CHECK(state.count("cuLibraryLoadData") == looked_up);
      CHECK((found == test::launches_in_a_new_thread([&] { call.run(); })));
      state.calls["cuTensorMapEncodeTiled"] = encoded;  // without those of the other thread
    }
    const int replaced = state.count("cuTensorMapReplaceAddress");
    call.run();  // nothing has moved
    CHECK(state.count("cuTensorMapReplaceAddress") == replaced);
  }
}

TEST_CASE("what a call may not be is refused after a call that may") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  const auto refused = [&](const std::function<void(Call&)>& spoil,
                           const std::function<void(Call&)>& before = {}) {
    Call good;
    if (before) before(good);
    good.run();
    good.run();
    Call bad = good;
    spoil(bad);
    const std::size_t launches = state.launches.size();
    const std::string message = message_of<ValueError>([&] { bad.run(); });
    CHECK(state.launches.size() == launches);
    good.run();
    CHECK(state.launches.size() == launches + 1);
    return message;
  };
  const auto args_of = [](Call& c) -> GemmArgs& { return c.product.args; };
  CHECK(contains(refused([&](Call& c) { args_of(c).out.data = args_of(c).a.values.data; }),
                 "out: found memory that overlaps a"));
  CHECK(contains(refused([&](Call& c) {
                   args_of(c).out.data = static_cast<char*>(args_of(c).b.values.data) + 640 * 1008;
                 }),
                 "out: found memory that overlaps b"));
  CHECK(contains(refused([&](Call& c) {
                   args_of(c).a.sf->data = static_cast<char*>(args_of(c).out.data) + 300 * 1264;
                 }),
                 "out: found memory that overlaps sfa"));
  const auto with_c = [](Call& c) { c.product.add_c_of_its_own(); };
  CHECK(contains(
      refused([&](Call& c) { args_of(c).c->data = static_cast<char*>(args_of(c).out.data) + 64; },
              with_c),
      "c: found memory that partly overlaps out"));
  const auto with_bias = [](Call& c) { c.product.args.bias = bias_of(DType::float32); };
  CHECK(contains(refused([&](Call& c) { args_of(c).bias->data = args_of(c).out.data; }, with_bias),
                 "out: found memory that overlaps bias"));
  CHECK(contains(refused([&](Call& c) { args_of(c).a.values.data = nullptr; }), "without memory"));
  CHECK(contains(refused([&](Call& c) { args_of(c).out.data = nullptr; }), "without memory"));
  CHECK(contains(refused([&](Call& c) { args_of(c).out.read_only = true; }), "read-only"));
  CHECK(contains(refused([&](Call& c) { c.options.num_sms = -1; }), "num_sms"));
  CHECK(contains(refused([&](Call& c) { c.options.accumulate_in_f64 = true; }), "f64"));
  CHECK(contains(refused([&](Call& c) { c.has_policy = true, c.policy.num_sms = -1; }), "num_sms"));
  CHECK(contains(refused([&](Call& c) { args_of(c).layout = static_cast<Layout>(4); }), "layout"));
  CHECK(contains(refused([&](Call& c) { args_of(c).activation = static_cast<Activation>(9); }),
                 "activation"));
  CHECK(contains(refused([&](Call& c) { args_of(c).a.values.rank = 1000; }), "rank"));
  CHECK(contains(refused([&](Call& c) { args_of(c).out.shape[0] = 299; }), "out: found shape"));
  CHECK(contains(refused([&](Call& c) { args_of(c).b.values.device.index = 1; }), "cuda:1"));
  const auto float8 = [](Call& c) {
    c.product.args.out = PlannedProduct::view(3, DType::float8_e4m3fn, 300, 640);
    c.product.args.out_scale = 2;
  };
  for (float scale : {0.0F, -2.0F, std::numeric_limits<float>::infinity(),
                      std::numeric_limits<float>::quiet_NaN()}) {
    CHECK(contains(refused([&](Call& c) { args_of(c).out_scale = scale; }, float8), "out_scale"));
  }
}

TEST_CASE("an out that lies between the columns of an input is told apart on a hit too") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  fake::CudaState& state = fake::use_fake_driver();
  GemmArgs args = PlannedProduct(64, 256, 256, DType::bfloat16).args;
  args.a.values.strides[0] = args.out.strides[0] = 512;  // [a | out] in rows of 512
  args.out.data = static_cast<char*>(args.a.values.data) + 512;
  gemm(args);
  const std::size_t launches = state.launches.size();
  gemm(args);
  CHECK(state.launches.size() == launches + 1);
  args.out.data = static_cast<char*>(args.a.values.data) + 256;  // the columns meet
  CHECK(contains(message_of<ValueError>([&] { gemm(args); }), "out: found memory that overlaps a"));
}
