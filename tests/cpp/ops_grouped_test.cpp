// grouped_gemm and masked_gemm: each bad argument is named before anything is computed.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "grouped_case.hpp"

using namespace deepgemm;
using test::contains;
using test::message_of;
using test::RowGroups;
using test::Tensor;
using test::Vector;

namespace {

struct Grouped : RowGroups {
  Grouped() : RowGroups(4, 6, 130, 256, false), sizes({1, 2, 0, 3}) {
    args = test::as<GroupedArgs>(*this);
    args.groups = sizes.view;
  }
  Vector sizes;
  GroupedArgs args;
};

struct Masked : RowGroups {
  Masked() : RowGroups(4, 6, 130, 256, true), counts({1, 6, 0, 3}) {
    args = test::as<MaskedArgs>(*this);
    args.rows = counts.view;
  }
  Vector counts;
  MaskedArgs args;
};

// The call fails with `Exception`, the message has every part, and make_problem() says the same.
template <class Exception, class Args>
void refuses(const Args& args, std::initializer_list<const char*> parts) {
  const std::string message = message_of<Exception>([&] {
    if constexpr (std::is_same_v<Args, GroupedArgs>)
      grouped_gemm(args);
    else
      masked_gemm(args);
  });
  REQUIRE_FALSE(message.empty());
  CHECK(message_of<Exception>([&] { make_problem(args); }) == message);
  for (const char* part : parts) {
    INFO(message);
    CHECK(contains(message, part));
  }
}

constexpr Device gpu{DeviceKind::cuda, 0};

template <class Args>
void move_to_gpu(Args& args) {
  for (TensorView* view : {&args.a.values, &*args.a.sf, &args.b.values, &*args.b.sf, &args.out})
    view->device = gpu;
}

}  // namespace

TEST_CASE("make_problem describes the call") {
  Grouped p;
  GroupedProblem problem = make_problem(p.args);
  CHECK(problem.kind == GroupKind::rows);
  CHECK(problem.form == GroupForm::sizes);
  CHECK(problem.groups == 4);
  CHECK(problem.product.m == 6);
  CHECK(problem.product.n == 130);
  CHECK(problem.product.k == 256);
  CHECK(problem.product.a_granularity == Granularity{1, 128});
  CHECK(problem.product.b_granularity == Granularity{128, 128});
  CHECK(problem.product.out_dtype == DType::float32);
  CHECK_FALSE(problem.product.has_c);
  Masked q;
  q.args.c = q.args.out;
  q.args.alpha = 3;
  problem = make_problem(q.args);
  CHECK(problem.kind == GroupKind::masked);
  CHECK(problem.groups == 4);
  CHECK(problem.product.m == 6);
  CHECK(problem.product.has_c);
  CHECK(problem.product.has_alpha);
}

TEST_CASE("grouped: operands") {
  Grouped p;
  GroupedArgs& args = p.args;
  SUBCASE("dtypes") {
    args.a.values.dtype = DType::uint8;
    refuses<TypeError>(args, {"a: found uint8", "deepgemm.view"});
    args.a.values.dtype = DType::float8_e4m3fn;
    args.out.dtype = DType::float8_e4m3fn;
    refuses<TypeError>(args, {"out: found float8_e4m3fn, need bfloat16, float16 or float32"});
    args.out.dtype = DType::float32;
    args.b.sf->dtype = DType::float16;
    refuses<TypeError>(args, {"sfb: found float16"});
  }
  SUBCASE("ranks") {
    args.b.values.rank = 2;
    refuses<ValueError>(args, {"b: found shape [4, 130], rank 2", "rank 3, [G, N, K]"});
    args.layout = Layout::nn;
    refuses<ValueError>(args, {"rank 3, [G, K, N]"});
    args.a.values.rank = 3;
    refuses<ValueError>(args, {"a: found ", "rank 2, [M, K]"});
  }
  SUBCASE("K") {
    args.b.values.shape[2] = 255;
    refuses<ValueError>(args, {"b: found shape [4, 130, 255], K = 255, need K = 256",
                               "reads a as [M, K] and b as [G, N, K]"});
  }
  SUBCASE("layout") {
    args.layout = Layout::tn;
    refuses<ValueError>(args, {"layout: found \"tn\", need \"nt\" or \"nn\" (the rows of a"});
    args.layout = static_cast<Layout>(9);
    refuses<ValueError>(args, {"layout: found value 9"});
  }
  SUBCASE("activation") {
    args.activation = static_cast<Activation>(9);
    refuses<ValueError>(args, {"activation: found value 9"});
  }
  SUBCASE("groups of b are not outermost") {
    args.b.values.strides = {1, 1024, 4};
    refuses<ValueError>(args, {"b: found [4, 130, 256] float8_e4m3fn cpu, strides [1, 1024, 4]",
                               "need a stride of 133117 or more between groups (the group"});
    args.b.values.strides = {0, 256, 1};
    refuses<ValueError>(args, {"b: found ", "need a stride of 33280 or more"});
    args.b.values.strides = {-33279, 256, 1};
    refuses<ValueError>(args, {"b: found ", "need a stride of 33280 or more"});
    args.b.values.strides = {33280, 256, 1};
    args.b.sf->strides = {1, 8, 4};
    refuses<ValueError>(args, {"sfb: found [4, 2, 2]", "need a stride of 13 or more"});
  }
  SUBCASE("out, c, bias") {
    args.out.shape[0] = 5;
    refuses<ValueError>(args, {"out: found shape [5, 130], need [6, 130] ([M, N])"});
    args.out.shape[0] = 6;
    Tensor c(DType::float32, {6, 129}), bias(DType::float32, {3, 130});
    args.c = c.view;
    refuses<ValueError>(args, {"c: found shape [6, 129], need [6, 130]"});
    args.c.reset();
    args.bias = bias.view;
    refuses<ValueError>(args, {"bias: found shape [3, 130], need [4, 130] ([G, N])"});
    args.bias->rank = 1;
    refuses<ValueError>(args, {"bias: found shape [3], rank 1", "rank 2, [G, N]"});
  }
  SUBCASE("overlap") {
    args.out.data = args.b.values.data;
    refuses<ValueError>(args, {"out: found memory that overlaps b"});
    args.out.data = args.groups.data;
    refuses<ValueError>(args, {"out: found memory that overlaps group_sizes"});
  }
  SUBCASE("c partly over out") {
    args.c = args.out;
    args.c->data = static_cast<float*>(args.c->data) + 1;
    refuses<ValueError>(args, {"c: found memory that partly overlaps out"});
  }
}

TEST_CASE("grouped: factors") {
  Grouped p;
  GroupedArgs& args = p.args;
  Tensor blocks(DType::float32, {1, 2}), odd(DType::float32, {4, 3, 2});
  SUBCASE("of a: no block spans groups") {
    args.a.sf = blocks.view;
    args.a.granularity = Granularity{128, 128};
    refuses<ValueError>(args, {"a: found granularity (128, 128), need (1, k), or one factor",
                               "a block of rows would span groups"});
    args.a.granularity.reset();
    refuses<ValueError>(args, {"sfa: found shape [1, 2], need [6, 2] for (1, 128)"});
  }
  SUBCASE("of b: shape of each group's") {
    args.b.sf = odd.view;
    refuses<ValueError>(args, {"sfb[g]: found shape [3, 2], need [2, 2] for (128, 128)"});
    args.b.granularity = Granularity{128, 128};
    refuses<ValueError>(args, {"sfb[g]: found shape [3, 2], need shape [2, 2]"});
  }
  SUBCASE("of b: groups") {
    args.b.sf->shape[0] = 3;
    refuses<ValueError>(args, {"sfb: found shape [3, 2, 2], 3 groups, need 4 groups (as b has)"});
  }
  SUBCASE("of b: rank") {
    args.b.sf->rank = 2;
    refuses<ValueError>(args, {"sfb: found shape [4, 2], rank 2, need rank 3, [G, row blocks"});
  }
}

TEST_CASE("grouped: the group vector") {
  Grouped p;
  GroupedArgs& args = p.args;
  SUBCASE("dtype") {
    args.groups.dtype = DType::float32;
    refuses<TypeError>(args, {"group_sizes: found float32, need int32 or int64"});
    args.groups.dtype = DType::int16;
    refuses<TypeError>(args, {"group_sizes: found int16", "not converted"});
  }
  SUBCASE("rank") {
    args.groups.rank = 2;
    args.groups.shape[1] = 1;
    refuses<ValueError>(args, {"group_sizes: found shape [4, 1], rank 2, need rank 1, [G]"});
  }
  SUBCASE("length") {
    args.groups.shape[0] = 3;
    refuses<ValueError>(args, {"group_sizes: found shape [3], need [4] ([G], one for each"});
    args.form = GroupForm::ends;
    refuses<ValueError>(args, {"group_ends: found shape [3], need [4]"});
    args.form = GroupForm::offsets;
    refuses<ValueError>(args, {"group_offsets: found shape [3], need [5] ([G + 1], b has G"});
    args.form = GroupForm::labels;
    refuses<ValueError>(args, {"labels: found shape [3], need [6] ([M], one for each row of a)"});
    args.form = static_cast<GroupForm>(7);
    refuses<ValueError>(args, {"form: found value 7"});
  }
  SUBCASE("device") {
    args.groups.device = gpu;
    refuses<ValueError>(args, {"group_sizes: found an array on cuda:0, need cpu"});
  }
  SUBCASE("alignment") {
    args.alignment = 128;
    refuses<ValueError>(args, {"alignment: found 128, need 1 (only the groups of group_ends"});
    args.form = GroupForm::ends;
    args.alignment = 0;
    refuses<ValueError>(args, {"alignment: found 0, need 1 or more"});
  }
}

TEST_CASE("masked: operands") {
  Masked p;
  MaskedArgs& args = p.args;
  SUBCASE("ranks and groups") {
    args.a.values.shape[0] = 3;
    refuses<ValueError>(args, {"b: found shape [4, 130, 256], 4 groups, need 3 groups (a has "
                               "shape [3, 6, 256], [G, Mmax, K])"});
    args.a.values.rank = 2;
    refuses<ValueError>(args, {"a: found ", "rank 3, [G, Mmax, K]"});
  }
  SUBCASE("shapes") {
    args.out.shape[1] = 7;
    refuses<ValueError>(args, {"out: found shape [4, 7, 130], need [4, 6, 130] ([G, Mmax, N])"});
  }
  SUBCASE("groups are outermost") {
    args.a.values.strides = {256, 1024, 1};
    refuses<ValueError>(args, {"a: found ", "need a stride of 5376 or more between groups"});
    args.a.values.strides = {1536, 256, 1};
    args.out.strides = {130, 520, 1};
    refuses<ValueError>(args, {"out: found ", "need a stride of 2730 or more between groups"});
  }
  SUBCASE("factors of a") {
    args.a.sf->shape[1] = 5;
    refuses<ValueError>(args, {"sfa[g]: found shape [5, 2], need [6, 2] for (1, 128)"});
  }
  SUBCASE("rows") {
    args.rows.shape[0] = 5;
    refuses<ValueError>(args, {"rows: found shape [5], need [4]"});
    args.rows.dtype = DType::uint8;
    refuses<TypeError>(args, {"rows: found uint8, need int32 or int64"});
  }
  SUBCASE("expected_rows") {
    args.expected_rows = -1;
    refuses<ValueError>(args, {"expected_rows: found -1, need 0 or more"});
  }
}

TEST_CASE("memory and options") {
  Grouped p;
  for (TensorView* view : {&p.args.a.values, &p.args.groups, &p.args.out}) {
    void* const data = std::exchange(view->data, nullptr);
    CHECK(contains(message_of<ValueError>([&] { grouped_gemm(p.args); }), "fake or meta"));
    view->data = data;
  }
  CallOptions options;
  options.num_sms = -1;
  CHECK(contains(message_of<ValueError>([&] { grouped_gemm(p.args, options); }), "num_sms"));
  Masked q;
  CHECK(contains(message_of<ValueError>([&] { masked_gemm(q.args, options); }), "num_sms"));
  options.num_sms = 0;
  options.accumulate_in_f64 = true;
  grouped_gemm(p.args, options);
  CHECK(p.is_right([](auto, std::int64_t row) { return row < 1 ? 0 : row < 3 ? 1 : 3; }));
  move_to_gpu(p.args);
  p.args.groups.device = gpu;
  CHECK(contains(message_of<ValueError>([&] { grouped_gemm(p.args, options); }),
                 "accumulate_in_f64: found cuda:0, need cpu"));
}

TEST_CASE("on a GPU the values are not looked at: the first thing missed is the driver") {
  setenv("DEEPGEMM_CUDA_DRIVER_PATH", "/nonexistent/libcuda.so.1", 1);
  Grouped p;
  const Vector wild({-1, 1 << 30, 7, 0});
  move_to_gpu(p.args);
  p.args.groups = wild.view;
  p.args.groups.device = gpu;
  CHECK(contains(message_of<DriverError>([&] { grouped_gemm(p.args); }), "no CUDA driver"));
  Masked q;
  move_to_gpu(q.args);
  q.args.rows = p.args.groups;
  CHECK(contains(message_of<DriverError>([&] { masked_gemm(q.args); }), "no CUDA driver"));
}
