#include <doctest/doctest.h>

#include <limits>
#include <string>

#include "deepgemm/gemm.hpp"
#include "gemm_case.hpp"
#include "ops/granularity.hpp"

using namespace deepgemm;
using test::contains;
using test::message_of;
using test::Product;
using test::Tensor;
using test::whole;

namespace {

Product usual() {
  return Product({.m = 256,
                  .n = 384,
                  .k = 512,
                  .out_type = DType::bfloat16,
                  .a_scaling = Granularity{1, 128},
                  .b_scaling = Granularity{128, 128}});
}

// The call fails with `Exception`, and the message has every part.
template <class Exception>
void refuses(const GemmArgs& args, std::initializer_list<const char*> parts) {
  std::string message = message_of<Exception>([&] { gemm(args); });
  REQUIRE_FALSE(message.empty());
  for (const char* part : parts) {
    INFO(message);
    CHECK(contains(message, part));
  }
}

}  // namespace

TEST_CASE("make_problem describes the call") {
  Product p = usual();
  GemmArgs args = p.args();
  args.alpha = 2;
  args.c = args.out;
  GemmProblem problem = make_problem(args);
  CHECK(problem.m == 256);
  CHECK(problem.n == 384);
  CHECK(problem.k == 512);
  CHECK(problem.a_granularity == Granularity{1, 128});
  CHECK(problem.b_granularity == Granularity{128, 128});
  CHECK(problem.has_alpha);
  CHECK(problem.has_c);
  CHECK_FALSE(problem.has_bias);
  args.a.sf.reset();
  CHECK_FALSE(make_problem(args).a_scaled);
  CHECK(make_problem(args).a_granularity == per_tensor);
}

TEST_CASE("dtypes") {
  Product p = usual();
  GemmArgs args = p.args();
  SUBCASE("uint8 says how to view it") {
    args.a.values.dtype = DType::uint8;
    refuses<TypeError>(args, {"a: found uint8", "float8_e4m3fn, float8_e5m2",
                              "deepgemm.view(x, \"float8_e4m3fn\")"});
  }
  SUBCASE("int32") {
    args.b.values.dtype = DType::int32;
    refuses<TypeError>(args, {"b: found int32", "integer arrays"});
  }
  SUBCASE("float64") {
    args.b.values.dtype = DType::float64;
    refuses<TypeError>(args, {"b: found float64"});
  }
  SUBCASE("e8m0 values") {
    args.a.values.dtype = DType::float8_e8m0fnu;
    refuses<TypeError>(args, {"a: found float8_e8m0fnu"});
  }
  SUBCASE("packed factors") {
    args.a.sf->dtype = DType::int32;
    refuses<TypeError>(args, {"sfa: found int32", "float32 or float8_e8m0fnu"});
  }
  SUBCASE("factors of b") {
    args.b.sf->dtype = DType::bfloat16;
    refuses<TypeError>(args, {"sfb: found bfloat16"});
  }
  SUBCASE("out") {
    args.out.dtype = DType::float64;
    refuses<TypeError>(args, {"out: found float64", "bfloat16"});
  }
  SUBCASE("c") {
    Tensor c(DType::float16, {256, 384});
    args.c = c.view;
    refuses<TypeError>(args, {"c: found float16", "bfloat16 or float32", "out's dtype"});
  }
  SUBCASE("bias") {
    Tensor bias(DType::float8_e5m2, {384});
    args.bias = bias.view;
    refuses<TypeError>(args, {"bias: found float8_e5m2"});
  }
}

TEST_CASE("ranks and shapes") {
  Product p = usual();
  GemmArgs args = p.args();
  SUBCASE("rank 1") {
    args.a.values.rank = 1;
    refuses<ValueError>(args, {"a: found shape [256], rank 1", "rank 2, [M, K]"});
  }
  SUBCASE("rank 4") {
    args.b.values.rank = 4;
    args.b.values.shape[2] = args.b.values.shape[3] = 1;
    refuses<ValueError>(args, {"b: found shape [384, 512, 1, 1]", "[N, K], or rank 3, [B, N, K]"});
  }
  SUBCASE("K differs") {
    args.b.values.shape = {384, 511};
    refuses<ValueError>(args, {"b: found shape [384, 511], K = 511", "K = 512", "\"nt\"",
                               "a has shape [256, 512]"});
  }
  SUBCASE("the wrong layout") {
    args.layout = Layout::nn;
    refuses<ValueError>(args, {"b: ", "\"nn\"", "[K, N]"});
  }
  SUBCASE("out") {
    args.out.shape = {384, 256};
    refuses<ValueError>(args, {"out: found shape [384, 256], need [256, 384]", "[M, N]"});
  }
  SUBCASE("c") {
    args.c = args.out;
    args.c->shape[0] = 1;
    refuses<ValueError>(args, {"c: found shape [1, 384]"});
  }
  SUBCASE("bias length") {
    Tensor bias(DType::float32, {256});
    args.bias = bias.view;
    refuses<ValueError>(args, {"bias: found shape [256], need [384]", "[N]"});
  }
  SUBCASE("bias rank") {
    Tensor bias(DType::float32, {1, 384});
    args.bias = bias.view;
    refuses<ValueError>(args, {"bias: found shape [1, 384], rank 2", "rank 1"});
  }
  SUBCASE("negative extent") {
    args.a.values.shape[0] = -1;
    refuses<ValueError>(args, {"a: found shape [-1, 512]"});
  }
  SUBCASE("more than 2^63 bytes") {
    args.a.values.shape[0] = std::numeric_limits<std::int64_t>::max() / 2;
    refuses<ValueError>(args, {"a: ", "2^63"});
  }
  SUBCASE("strides that leave the address space") {
    args.a.values.strides[0] = std::numeric_limits<std::int64_t>::max() / 3;
    refuses<ValueError>(args, {"a: ", "2^63"});
  }
}

TEST_CASE("granularity is inferred") {
  auto resolved = [](std::int64_t rows, std::int64_t k, std::int64_t p, std::int64_t q) {
    Tensor sf(DType::float32, {p, q});
    ScaledView view{{}, sf.view, std::nullopt};
    return ops::resolve_granularity("a", "sfa", view, rows, k, ops::readings_of_rows());
  };
  CHECK(resolved(256, 512, 256, 4) == Granularity{1, 128});
  CHECK(resolved(256, 512, 2, 4) == Granularity{128, 128});
  CHECK(resolved(256, 512, 256, 1) == Granularity{1, whole});
  CHECK(resolved(256, 512, 256, 16) == Granularity{1, 32});
  CHECK(resolved(256, 512, 1, 1) == per_tensor);
  CHECK(resolved(257, 513, 3, 5) == Granularity{128, 128});
  // Readings that give every element the same factor are one reading.
  CHECK(resolved(1, 512, 1, 4) == Granularity{1, 128});
  CHECK(resolved(1, 128, 1, 1) == Granularity{1, 128});
  CHECK(resolved(100, 512, 1, 4) == Granularity{128, 128});
  CHECK(resolved(0, 512, 0, 4) == Granularity{1, 128});
  CHECK(resolved(8, 0, 8, 0) == Granularity{1, 128});
}

TEST_CASE("scale factors of the wrong shape") {
  Product p = usual();
  GemmArgs args = p.args();
  SUBCASE("inferred: the message lists what would fit") {
    args.a.granularity.reset();
    args.a.sf->shape = {255, 4};
    refuses<ValueError>(args, {"sfa: found shape [255, 4]", "[256, 4] for (1, 128)",
                               "[2, 4] for (128, 128)", "[1, 1] for (whole, whole)"});
  }
  SUBCASE("contradicting the given granularity") {
    args.b.granularity = Granularity{1, 128};
    refuses<ValueError>(args, {"sfb: found shape [3, 4], need shape [384, 4]", "(1, 128)"});
  }
  SUBCASE("rank") {
    args.a.sf->rank = 1;
    refuses<ValueError>(args, {"sfa: found shape [256]"});
  }
  SUBCASE("negative granularity") {
    args.a.granularity = Granularity{-1, 128};
    refuses<ValueError>(args, {"a: found granularity (-1, 128)"});
  }
  SUBCASE("ambiguous: the error lists the readings") {
    Tensor sf(DType::float32, {8, 2});
    ScaledView view{{}, sf.view, std::nullopt};
    const Granularity readings[] = {{1, 64}, {1, 96}, {1, 128}};
    std::string message = message_of<ValueError>(
        [&] { ops::resolve_granularity("a", "sfa", view, 8, 128, readings); });
    CHECK(contains(message, "sfa: found shape [8, 2]"));
    CHECK(contains(message, "(1, 64), (1, 96)"));
    view.granularity = Granularity{1, 96};
    CHECK(ops::resolve_granularity("a", "sfa", view, 8, 128, readings) == Granularity{1, 96});
  }
  SUBCASE("(1, K) by number is (1, whole)") {
    Tensor sf(DType::float32, {256, 1});
    args.a.sf = sf.view;
    args.a.granularity = Granularity{1, 512};
    CHECK(make_problem(args).a_granularity == Granularity{1, whole});
  }
}

TEST_CASE("devices") {
  Product p = usual();
  Tensor bias(DType::float32, {384});
  GemmArgs args = p.args();
  args.bias = bias.view;
  args.c = args.out;
  const Device gpu{DeviceKind::cuda, 0};
  SUBCASE("b") {
    args.b.values.device = gpu;
    refuses<ValueError>(args, {"b: found an array on cuda:0, need cpu", "a is on cpu"});
  }
  SUBCASE("a") {
    args.a.values.device = {DeviceKind::cuda, 1};
    refuses<ValueError>(args, {"b: found an array on cpu, need cuda:1"});
  }
  SUBCASE("sfa") { args.a.sf->device = gpu, refuses<ValueError>(args, {"sfa: ", "cuda:0"}); }
  SUBCASE("sfb") { args.b.sf->device = gpu, refuses<ValueError>(args, {"sfb: ", "cuda:0"}); }
  SUBCASE("out") { args.out.device = gpu, refuses<ValueError>(args, {"out: ", "cuda:0"}); }
  SUBCASE("c") { args.c->device = gpu, refuses<ValueError>(args, {"c: ", "cuda:0"}); }
  SUBCASE("bias") { args.bias->device = gpu, refuses<ValueError>(args, {"bias: ", "cuda:0"}); }
}

TEST_CASE("FP64 sums are the CPU's alone") {
  Product p = usual();
  GemmArgs args = p.args();
  for (TensorView* view : {&args.a.values, &*args.a.sf, &args.b.values, &*args.b.sf, &args.out}) {
    view->device = {DeviceKind::cuda, 0};
  }
  CallOptions options;
  options.accumulate_in_f64 = true;
  CHECK(contains(message_of<ValueError>([&] { gemm(args, options); }), "accumulate_in_f64"));
}

TEST_CASE("out must be writable memory of its own, each element in its own place") {
  Product p = usual();
  GemmArgs args = p.args();
  SUBCASE("read-only") {
    args.out.read_only = true;
    refuses<ValueError>(args, {"out: found a read-only array"});
  }
  SUBCASE("zero stride") {
    args.out.strides = {0, 1};
    refuses<ValueError>(args, {"out: ", "strides [0, 1]", "stride of 0"});
  }
  SUBCASE("overlapping rows") {
    args.out.strides = {383, 1};
    refuses<ValueError>(args, {"out: ", "strides [383, 1]", "overlap"});
  }
  SUBCASE("overlapping columns") {
    args.out.strides = {1, 255};
    refuses<ValueError>(args, {"out: ", "overlap"});
  }
  SUBCASE("a") {
    args.out.data = p.a.memory.data() + 100;
    refuses<ValueError>(args, {"out: found memory that overlaps a,"});
  }
  SUBCASE("b") {
    args.b.values.data = p.out.memory.data() + 100;
    refuses<ValueError>(args, {"out: found memory that overlaps b,"});
  }
  SUBCASE("sfa") {
    args.a.sf->data = p.out.memory.data();
    refuses<ValueError>(args, {"out: found memory that overlaps sfa"});
  }
  SUBCASE("sfb") {
    args.b.sf->data = p.out.memory.data();
    refuses<ValueError>(args, {"out: found memory that overlaps sfb"});
  }
  SUBCASE("bias") {
    args.bias = make_view(p.out.memory.data() + 2 * 256 * 384 - 4, DType::bfloat16, {384});
    refuses<ValueError>(args, {"out: found memory that overlaps bias"});
  }
  SUBCASE("c shifted") {
    args.c = args.out;
    args.c->data = p.out.memory.data() + 2;
    refuses<ValueError>(args, {"c: found memory that partly overlaps out"});
  }
  SUBCASE("c transposed") {
    args.c = args.out;
    args.c->strides = {1, 256};
    refuses<ValueError>(args, {"c: found memory that partly overlaps out"});
  }
}

TEST_CASE("fake tensors") {
  Product p = usual();
  GemmArgs args = p.args();
  make_problem(args);
  SUBCASE("a") { args.a.values.data = nullptr, refuses<ValueError>(args, {"a: ", "fake or meta"}); }
  SUBCASE("sfb") { args.b.sf->data = nullptr, refuses<ValueError>(args, {"sfb: ", "fake"}); }
  SUBCASE("out") { args.out.data = nullptr, refuses<ValueError>(args, {"out: ", "fake"}); }
  SUBCASE("c") {
    args.c = args.out;
    args.c->data = nullptr;
    refuses<ValueError>(args, {"c: ", "fake"});
  }
  args.a.values.data = nullptr;
  make_problem(args);  // describing them is fine
}

TEST_CASE("out_scale, layout and activation") {
  Product p = usual();
  GemmArgs args = p.args();
  for (float bad : {0.0F, -1.0F, std::numeric_limits<float>::infinity(),
                    std::numeric_limits<float>::quiet_NaN()}) {
    args.out_scale = bad;
    refuses<ValueError>(args, {"out_scale: "});
  }
  args.out_scale = 2;
  refuses<ValueError>(args, {"out_scale: found 2", "float8", "out is bfloat16"});
  args.out_scale = 1;
  args.layout = static_cast<Layout>(9);
  refuses<ValueError>(args, {"layout: "});
  args.layout = Layout::nt;
  args.activation = static_cast<Activation>(9);
  refuses<ValueError>(args, {"activation: "});
}

TEST_CASE("strides of one-element dimensions mean nothing") {
  Product p({.m = 1, .n = 8, .k = 32});
  GemmArgs args = p.args();
  args.out.strides = {0, 1};
  args.a.values.strides = {-99, 1};
  args.c = args.out;
  args.c->strides = {12345, 1};  // still out itself
  gemm(args);
  CHECK(std::isfinite(p.out.at(0, 7)));
}

TEST_CASE("an empty product checks its arguments too") {
  Product p({.m = 0, .n = 8, .k = 32});
  GemmArgs args = p.args();
  gemm(args);
  args.out.shape[1] = 7;
  refuses<ValueError>(args, {"out: found shape [0, 7]"});
}
