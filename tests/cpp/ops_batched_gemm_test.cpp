// A batch of products: what may be one for all, and each bad argument by name before anything is
// computed.
#include <doctest/doctest.h>

#include <string>

#include "deepgemm/gemm.hpp"
#include "deepgemm/runtime.hpp"
#include "ops/batches.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::contains;
using test::message_of;
using test::Tensor;

namespace {

// Three products of 4 x 130 x 256.
struct Batch {
  Batch() {
    args.a = {a.view, sfa.view, std::nullopt};
    args.b = {b.view, sfb.view, std::nullopt};
    args.out = out.view;
  }
  Tensor a{DType::float8_e4m3fn, {3, 4, 256}}, sfa{DType::float32, {3, 4, 2}};
  Tensor b{DType::float8_e4m3fn, {3, 130, 256}}, sfb{DType::float32, {3, 2, 2}};
  Tensor out{DType::bfloat16, {3, 4, 130}};
  GemmArgs args;
};

// The call fails with `Exception`, the message has every part, and make_problem() says the same.
template <class Exception = ValueError>
void refuses(const GemmArgs& args, std::initializer_list<const char*> parts) {
  const std::string message = message_of<Exception>([&] { gemm(args); });
  REQUIRE_FALSE(message.empty());
  CHECK(message_of<Exception>([&] { make_problem(args); }) == message);
  for (const char* part : parts) {
    INFO(message);
    CHECK(contains(message, part));
  }
}

// The first `count` matrices.
TensorView of_batch(TensorView view, std::int64_t count) {
  view.shape[0] = count;
  return view;
}

}  // namespace

TEST_CASE("make_problem describes one product and how many there are") {
  Batch p;
  GemmProblem problem = make_problem(p.args);
  CHECK(problem.batch == 3);
  CHECK(problem.m == 4);
  CHECK(problem.n == 130);
  CHECK(problem.k == 256);
  CHECK(problem.a_granularity == Granularity{1, 128});
  CHECK(problem.b_granularity == Granularity{128, 128});
  p.args.a = {selected(p.a.view, 0), selected(p.sfa.view, 0), std::nullopt};
  CHECK(make_problem(p.args) == problem);
  p.args.b = p.args.a;
  p.args.out = make_view(p.out.view.data, DType::bfloat16, {4, 4});
  CHECK(make_problem(p.args).batch == 1);
}

TEST_CASE("the first product and the distances to the others") {
  Batch p;
  SUBCASE("one matrix each") {
    ops::FirstProduct first = ops::first_product(p.args, make_problem(p.args));
    CHECK(first.batch.count == 3);
    CHECK(first.batch.a == 4 * 256);
    CHECK(first.batch.sfa == 8);
    CHECK(first.batch.b == 130 * 256);
    CHECK(first.batch.sfb == 4);
    CHECK(first.batch.out == 4 * 130);
    CHECK(first.batch.c == 0);
    CHECK(first.changed->out.rank == 2);
    CHECK(first.changed->a.sf->rank == 2);
  }
  SUBCASE("one for all") {
    Tensor c(DType::float32, {1, 4, 130});
    p.args.a.values = of_batch(p.a.view, 1);
    p.args.a.sf = of_batch(p.sfa.view, 1);
    p.args.b.sf = selected(p.sfb.view, 0);
    p.args.c = c.view;
    ops::FirstProduct first = ops::first_product(p.args, make_problem(p.args));
    CHECK(first.batch.count == 3);
    CHECK(first.batch.a == 0);
    CHECK(first.batch.sfa == 0);
    CHECK(first.batch.sfb == 0);
    CHECK(first.batch.c == 0);
    CHECK(first.changed->c->rank == 2);
  }
  SUBCASE("of rank 2 there is nothing to do, and no copy") {
    p.args.a = {selected(p.a.view, 0), selected(p.sfa.view, 0), std::nullopt};
    p.args.b = p.args.a;
    p.args.out = make_view(p.out.view.data, DType::bfloat16, {4, 4});
    ops::FirstProduct first = ops::first_product(p.args, make_problem(p.args));
    CHECK(first.batch.count == 1);
    CHECK_FALSE(first.changed.has_value());
  }
}

TEST_CASE("what may be one for all") {
  Batch p;
  SUBCASE("a of rank 2") { p.args.a = {selected(p.a.view, 0), selected(p.sfa.view, 0), {}}; }
  SUBCASE("b of rank 2") { p.args.b = {selected(p.b.view, 0), selected(p.sfb.view, 0), {}}; }
  SUBCASE("a of extent 1") { p.args.a = {of_batch(p.a.view, 1), of_batch(p.sfa.view, 1), {}}; }
  SUBCASE("b of stride 0") { p.args.b.values.strides[0] = p.args.b.sf->strides[0] = 0; }
  SUBCASE("the factors of b, of rank 2") { p.args.b.sf = selected(p.sfb.view, 1); }
  SUBCASE("the factors of a, of extent 1") { p.args.a.sf = of_batch(p.sfa.view, 1); }
  SUBCASE("one factor") { p.args.a.sf = make_view(p.sfa.view.data, DType::float32, {}); }
  SUBCASE("one factor of rank 3") {
    p.args.b.sf = make_view(p.sfb.view.data, DType::float32, {1, 1, 1});
  }
  SUBCASE("matrices of a between one another's rows") {
    p.args.a.values.strides = {256, 3 * 256, 1};
  }
  gemm(p.args);
  CHECK(make_problem(p.args).batch == 3);
}

TEST_CASE("ranks and shapes") {
  Batch p;
  SUBCASE("rank 4") {
    p.args.a.values.rank = 4;
    p.args.a.values.shape[3] = 1;
    refuses(p.args, {"a: found shape [3, 4, 256, 1], rank 4, need rank 2, [M, K], or rank 3, "
                     "[B, M, K]"});
  }
  SUBCASE("rank 1, of a turned b") {
    p.args.b.values.rank = 1;
    p.args.layout = Layout::nn;
    refuses(p.args, {"b: found shape [3], rank 1", "[K, N], or rank 3, [B, K, N]"});
  }
  SUBCASE("K") {
    p.args.b.values.shape[2] = 255;
    refuses(p.args,
            {"b: found shape [3, 130, 255], K = 255, need K = 256", "[B, M, K]", "b as [B, N, K]"});
  }
  SUBCASE("the number of matrices") {
    p.args.b.values = of_batch(p.b.view, 2);
    refuses(p.args, {"b: found shape [2, 130, 256], 2 matrices, need 3 matrices, or 1 for all",
                     "a has shape [3, 4, 256]"});
  }
  SUBCASE("no matrix") {
    p.args.a.values = of_batch(p.a.view, 0);
    refuses(p.args, {"b: found shape [3, 130, 256], 3 matrices, need 0"});
  }
  SUBCASE("out of rank 2") {
    p.args.out = selected(p.out.view, 0);
    refuses(p.args, {"out: found shape [4, 130], need [3, 4, 130] ([B, M, N])"});
  }
  SUBCASE("out of rank 3 where a and b are not") {
    p.args.a = {selected(p.a.view, 0), selected(p.sfa.view, 0), {}};
    p.args.b = {selected(p.b.view, 0), selected(p.sfb.view, 0), {}};
    refuses(p.args, {"out: found shape [3, 4, 130], need [4, 130] ([M, N])"});
  }
  SUBCASE("more matrices of out than of a and b") {
    p.args.a.values = of_batch(p.a.view, 1);
    p.args.b.values = of_batch(p.b.view, 1);
    p.args.a.sf.reset();
    p.args.b.sf.reset();
    refuses(p.args, {"out: found shape [3, 4, 130], need [1, 4, 130]"});
  }
  SUBCASE("bias for each") {
    Tensor bias(DType::float32, {3, 130});
    p.args.bias = bias.view;
    refuses(p.args, {"bias: found shape [3, 130], rank 2", "[N]"});
  }
}

TEST_CASE("factors") {
  Batch p;
  SUBCASE("of other matrices") {
    p.args.a.sf = of_batch(p.sfa.view, 2);
    refuses(p.args,
            {"sfa: found shape [2, 4, 2], 2 matrices, need 3 matrices, or 1 for all", "as a has"});
  }
  SUBCASE("of more matrices than the one for all") {
    p.args.b.values = of_batch(p.b.view, 1);
    refuses(p.args, {"sfb: found shape [3, 2, 2], 3 matrices, need 1 matrices (as b has)"});
  }
  SUBCASE("of a stack, for a matrix") {
    p.args.a.values = selected(p.a.view, 0);
    refuses(p.args, {"sfa: found shape [3, 4, 2]", "[4, 2] for (1, 128)"});
  }
  SUBCASE("the shape of one matrix") {
    p.args.a.sf->shape[1] = 3;
    refuses(p.args, {"sfa[i]: found shape [3, 2]", "[4, 2] for (1, 128)"});
  }
  SUBCASE("the shape of one matrix for all") {
    p.args.a.sf = selected(p.sfa.view, 0);
    p.args.a.sf->shape[0] = 3;
    refuses(p.args, {"sfa: found shape [3, 2]", "[4, 2] for (1, 128)"});
  }
  SUBCASE("a granularity that they do not have") {
    p.args.b.granularity = Granularity{1, 128};
    refuses(p.args, {"sfb[i]: found shape [2, 2], need shape [130, 2]"});
  }
  SUBCASE("rank 4") {
    p.args.b.sf->rank = 4;
    p.args.b.sf->shape[3] = 1;
    refuses(p.args, {"sfb: found shape [3, 2, 2, 1], rank 4, need rank 3",
                     "[B, row blocks, K blocks], or rank 2, for all"});
  }
  SUBCASE("turned") {
    Tensor b(DType::float8_e4m3fn, {3, 256, 130});
    p.args.layout = Layout::nn;
    p.args.b.values = b.view;
    p.args.b.sf->shape[1] = 1;
    refuses(p.args, {"sfb[i]: found shape [1, 2]", "layout \"nn\""});
  }
  SUBCASE("dtype") {
    p.args.b.sf->dtype = DType::float16;
    refuses<TypeError>(p.args, {"sfb: found float16"});
  }
}

TEST_CASE("out is B matrices apart, and the batch is outermost") {
  Batch p;
  SUBCASE("stride 0") {
    p.args.out.strides[0] = 0;
    refuses(p.args, {"out: ", "strides [0, 130, 1]", "a stride of 0"});
  }
  SUBCASE("matrices that overlap") {
    p.args.out.strides[0] = 4 * 130 - 1;
    refuses(p.args, {"out: ", "overlap"});
  }
  SUBCASE("rows between the rows of others") {
    p.args.out.strides = {130, 3 * 130, 1};
    refuses(p.args, {"out: ", "need a stride of 1300 or more between matrices",
                     "the batch dimension is the outermost in memory"});
  }
  SUBCASE("read-only") {
    p.args.out.read_only = true;
    refuses(p.args, {"out: found a read-only array"});
  }
  SUBCASE("a") {
    p.args.a.values.data = p.out.memory.data();
    refuses(p.args, {"out: found memory that overlaps a,"});
  }
  SUBCASE("the last matrix of b") {
    p.args.out.data = selected(p.b.view, 2).data;
    refuses(p.args, {"out: found memory that overlaps b,"});
  }
}

TEST_CASE("c") {
  Batch p;
  Tensor c(DType::bfloat16, {3, 4, 130});
  p.args.c = c.view;
  SUBCASE("what is right") {
    gemm(p.args);
    p.args.c = p.args.out;  // out itself
    gemm(p.args);
    for (std::int64_t rank : {2, 3}) {  // one for all
      p.args.c = rank == 2 ? selected(c.view, 1) : of_batch(c.view, 1);
      gemm(p.args);
    }
    p.args.c = c.view;
    p.args.c->strides[0] = 0;
    gemm(p.args);
    p.args.a.values = of_batch(p.a.view, 1);  // one product, whose c is out without the batch
    p.args.b.values = of_batch(p.b.view, 1);
    p.args.a.sf = of_batch(p.sfa.view, 1);
    p.args.b.sf = of_batch(p.sfb.view, 1);
    p.args.out = of_batch(p.out.view, 1);
    p.args.c = selected(p.out.view, 0);
    gemm(p.args);
  }
  SUBCASE("one for all that is in out") {
    p.args.c = selected(p.out.view, 0);
    refuses(p.args, {"c: found memory that partly overlaps out"});
    p.args.c = of_batch(p.out.view, 1);
    refuses(p.args, {"c: found memory that partly overlaps out"});
    p.args.c = p.out.view;
    p.args.c->strides[0] = 0;
    refuses(p.args, {"c: found memory that partly overlaps out"});
  }
  SUBCASE("other matrices") {
    p.args.c = of_batch(c.view, 2);
    refuses(p.args, {"c: found shape [2, 4, 130], need [3, 4, 130]", "[M, N] for all"});
  }
  SUBCASE("another shape") {
    p.args.c = selected(c.view, 0);
    p.args.c->shape[0] = 3;
    refuses(p.args, {"c: found shape [3, 130], need [3, 4, 130]"});
    p.args.c->rank = 1;
    refuses(p.args, {"c: found shape [3], need [3, 4, 130]"});
  }
  SUBCASE("a batch of c alone") {
    p.args.a = {selected(p.a.view, 0), selected(p.sfa.view, 0), {}};
    p.args.b = {selected(p.b.view, 0), selected(p.sfb.view, 0), {}};
    p.args.out = selected(p.out.view, 0);
    refuses(p.args, {"c: found shape [3, 4, 130], need [4, 130]"});
  }
  SUBCASE("dtype") {
    p.args.c->dtype = DType::float16;
    refuses<TypeError>(p.args, {"c: found float16"});
  }
}

TEST_CASE("devices and memory") {
  Batch p;
  SUBCASE("another device") {
    p.args.b.values.device = {DeviceKind::cuda, 0};
    refuses(p.args, {"b: found an array on cuda:0"});
  }
  SUBCASE("no memory") {
    p.args.a.values.data = nullptr;
    make_problem(p.args);
    CHECK(contains(message_of<ValueError>([&] { gemm(p.args); }), "a: "));
  }
}

TEST_CASE("an empty batch checks its arguments too") {
  Batch p;
  for (ScaledView* operand : {&p.args.a, &p.args.b}) {
    operand->values = of_batch(operand->values, 0);
    operand->sf = of_batch(*operand->sf, 0);
  }
  p.args.out = of_batch(p.out.view, 0);
  gemm(p.args);
  CHECK(make_problem(p.args).batch == 0);
  p.args.b = {selected(p.b.view, 0), selected(p.sfb.view, 0), {}};
  gemm(p.args);
  p.args.c = selected(p.out.view, 0);
  gemm(p.args);
  p.args.out.shape[2] = 7;
  refuses(p.args, {"out: found shape [0, 4, 7]"});
}

TEST_CASE("explain takes a batch, an empty one too") {
  Batch p;
  for (std::int64_t count : {3, 0}) {
    for (ScaledView* operand : {&p.args.a, &p.args.b}) {
      operand->values = of_batch(operand->values, count);
      operand->sf = of_batch(*operand->sf, count);
    }
    p.args.out = of_batch(p.out.view, count);
    const KernelReport report = explain(p.args, {});
    CHECK_FALSE(report.kernel.empty());
    CHECK(report.fields.back().first == "batch");
    CHECK(report.fields.back().second == std::to_string(count));
  }
}
