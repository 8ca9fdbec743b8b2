// k_grouped_gemm: each bad argument is named before anything is computed.
#include <doctest/doctest.h>

#include <string>

#include "grouped_case.hpp"

using namespace deepgemm;
using test::contains;
using test::message_of;
using test::Tensor;
using test::Vector;

namespace {

// Groups of 160, 0 and 128: 2 + 0 + 1 blocks.
struct KGrouped {
  KGrouped() {
    args.a = {a.view, sfa.view, std::nullopt};
    args.b = {b.view, sfb.view, std::nullopt};
    args.out = out.view;
    args.k_sizes = sizes.view;
    fill_flat(out, [] { return test::sentinel; });
  }
  Tensor a{DType::float8_e4m3fn, {5, 288}}, b{DType::float8_e4m3fn, {7, 288}};
  Tensor sfa{DType::float32, {5, 3}}, sfb{DType::float32, {7, 3}}, out{DType::float32, {3, 5, 7}};
  Vector sizes{{160, 0, 128}};
  KGroupedArgs args;
};

template <class Exception>
void refuses(const KGrouped& p, std::initializer_list<const char*> parts) {
  const std::string message = message_of<Exception>([&] { k_grouped_gemm(p.args); });
  REQUIRE_FALSE(message.empty());
  for (const char* part : parts) {
    INFO(message);
    CHECK(contains(message, part));
  }
  for (std::int64_t i = 0; i < p.out.view.size(); ++i) {
    CHECK(test::flat(p.out, i) == test::sentinel);
  }
}

}  // namespace

TEST_CASE("make_problem describes the call") {
  KGrouped p;
  const GroupedProblem problem = make_problem(p.args);
  CHECK(problem.kind == GroupKind::k);
  CHECK(problem.groups == 3);
  CHECK(problem.product.m == 5);
  CHECK(problem.product.n == 7);
  CHECK(problem.product.k == 288);
  CHECK(problem.product.a_granularity == Granularity{1, 128});
  p.args.a.sf.reset();
  CHECK(make_problem(p.args).product.a_granularity == per_tensor);
}

TEST_CASE("operands") {
  KGrouped p;
  KGroupedArgs& args = p.args;
  SUBCASE("dtypes") {
    args.a.values.dtype = DType::int8;
    refuses<TypeError>(p, {"a: found int8", "deepgemm.view"});
  }
  SUBCASE("out's dtype") {
    args.out.dtype = DType::float16;
    refuses<TypeError>(p, {"out: found float16, need float32 or bfloat16"});
  }
  SUBCASE("ranks") {
    args.b.values.rank = 3;
    refuses<ValueError>(p, {"b: found ", "rank 2, [N, K]"});
  }
  SUBCASE("K") {
    args.b.values.shape[1] = 287;
    refuses<ValueError>(p, {"b: found shape [7, 287], K = 287, need K = 288", "\"nt\""});
    args.layout = Layout::tn;
    refuses<ValueError>(p, {"K = 7, need K = 5", "\"tn\" reads a as [K, M] and b as [K, N]"});
  }
  SUBCASE("layout") {
    args.layout = static_cast<Layout>(4);
    refuses<ValueError>(p, {"layout: found value 4"});
  }
  SUBCASE("devices") {
    args.b.values.device = {DeviceKind::cuda, 0};
    refuses<ValueError>(p, {"b: found an array on cuda:0, need cpu"});
  }
  SUBCASE("out") {
    args.out.shape[0] = 2;
    refuses<ValueError>(p, {"out: found shape [2, 5, 7], need [3, 5, 7] ([G, M, N])"});
    args.out.shape[0] = 3;
    args.out.strides = {7, 21, 1};
    refuses<ValueError>(p, {"out: found ", "need a stride of 91 or more between groups"});
    args.out.strides = {35, 7, 1};
    args.out.data = args.a.values.data;
    refuses<ValueError>(p, {"out: found memory that overlaps a"});
  }
  SUBCASE("c") {
    Tensor c(DType::float32, {5, 7});
    args.c = c.view;
    refuses<ValueError>(p, {"c: found shape [5, 7], need [3, 5, 7] ([G, M, N])"});
  }
  SUBCASE("memory") {
    args.k_sizes.data = nullptr;
    refuses<ValueError>(p, {"k_sizes: found ", "fake or meta"});
  }
}

TEST_CASE("factors") {
  KGrouped p;
  KGroupedArgs& args = p.args;
  SUBCASE("granularity") {
    args.b.granularity = Granularity{128, 128};
    refuses<ValueError>(p, {"b: found granularity (128, 128), need (1, 128)"});
  }
  SUBCASE("rank") {
    args.a.sf->rank = 1;
    refuses<ValueError>(p, {"sfa: found shape [5], rank 1, need rank 2, [rows, K blocks]"});
  }
  SUBCASE("rows") {
    args.a.sf->shape[0] = 4;
    refuses<ValueError>(p, {"sfa: found shape [4, 3], 4 rows, need 5 rows"});
  }
  SUBCASE("blocks are counted per group") {
    args.b.sf->shape[1] = 2;
    refuses<ValueError>(p, {"sfb: found shape [7, 2], 2 blocks, need 3 or more (each group starts "
                            "a block: ceil(size / 128)"});
  }
  SUBCASE("dtype") {
    args.a.sf->dtype = DType::int32;
    refuses<TypeError>(p, {"sfa: found int32"});
  }
}

TEST_CASE("sizes") {
  KGrouped p;
  SUBCASE("multiples of 16 for float8 alone") {
    Vector odd({152, 0, 128});
    p.args.k_sizes = odd.view;
    refuses<ValueError>(p, {"k_sizes: found 152 for group 0, need multiples of 16"});
    Tensor a(DType::bfloat16, {5, 288}), b(DType::bfloat16, {7, 288});
    p.args.a = {a.view, std::nullopt, std::nullopt};
    refuses<ValueError>(p, {"k_sizes: found 152"});
    p.args.b = {b.view, std::nullopt, std::nullopt};
    k_grouped_gemm(p.args);
    CHECK(test::flat(p.out, 0) == 0);
  }
  SUBCASE("sum") {
    Vector large({160, 16, 128});
    p.args.k_sizes = large.view;
    refuses<ValueError>(p,
                        {"k_sizes: found 128 for group 2 after a sum of 176, need a sum of 288"});
  }
  SUBCASE("rank and dtype") {
    p.args.k_sizes.dtype = DType::float64;
    refuses<TypeError>(p, {"k_sizes: found float64, need int32 or int64"});
    p.args.k_sizes.rank = 0;
    refuses<ValueError>(p, {"k_sizes: found shape [], rank 0, need rank 1, [G]"});
  }
}

TEST_CASE("more blocks than needed, and a GPU") {
  KGrouped p;
  Tensor wide(DType::float32, {5, 9});
  p.args.a.sf = wide.view;
  k_grouped_gemm(p.args);
  CHECK(test::flat(p.out, 34) == 0);
  for (TensorView* view : {&p.args.a.values, &*p.args.a.sf, &p.args.b.values, &*p.args.b.sf,
                           &p.args.out, &p.args.k_sizes})
    view->device = {DeviceKind::cuda, 1};
  setenv("DEEPGEMM_CUDA_DRIVER_PATH", "/nonexistent/libcuda.so.1", 1);
  CHECK(contains(message_of<DriverError>([&] { k_grouped_gemm(p.args); }), "no CUDA driver"));
}
