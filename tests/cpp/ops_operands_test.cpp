// How operands may lie in memory: factors of turned operands, columns of one buffer; and num_sms.
#include <doctest/doctest.h>

#include <string>
#include <utility>

#include "deepgemm/deepgemm.hpp"
#include "gemm_case.hpp"

using namespace deepgemm;
using test::contains;
using test::message_of;
using test::Product;
using test::Tensor;

namespace {

void refuses(const GemmArgs& args, std::initializer_list<const char*> parts) {
  const std::string message = message_of<ValueError>([&] { gemm(args); });
  REQUIRE_FALSE(message.empty());
  for (const char* part : parts) {
    INFO(message);
    CHECK(contains(message, part));
  }
}

}  // namespace

TEST_CASE("factors of a turned operand lie as its values do") {
  for (Layout layout : {Layout::nn, Layout::tn, Layout::tt}) {
    Product p({.m = 256,
               .n = 256,
               .k = 256,
               .layout = layout,
               .a_scaling = Granularity{1, 128},
               .b_scaling = Granularity{1, 128}});
    GemmArgs args = p.args();
    args.a.granularity.reset();
    args.b.granularity.reset();
    CHECK(make_problem(args).a_granularity == Granularity{1, 128});
    CHECK(make_problem(args).b_granularity == Granularity{1, 128});
    gemm(args);
    CHECK(p.worst_error() < 1e-6);
    TensorView& sf = b_is_k_by_n(layout) ? *args.b.sf : *args.a.sf;
    sf = transposed(sf);
    refuses(args, {": found shape [256, 2]", "[2, 256] for (1, 128)", "layout \""});
    sf = transposed(sf);
    (b_is_k_by_n(layout) ? args.b : args.a).granularity = Granularity{128, 128};
    refuses(args, {"found shape [2, 256], need shape [2, 2]", "[K, rows]"});
  }
}

TEST_CASE("columns of one buffer do not overlap") {
  Tensor buffer(DType::float32, {16, 96});
  Tensor w(DType::float32, {32, 32});
  GemmArgs args;
  auto columns = [&](std::int64_t first) {
    TensorView view = make_view(buffer.memory.data() + first * 4, DType::float32, {16, 32});
    view.strides = {96, 1};
    return view;
  };
  args.b.values = w.view;
  for (auto [a, out] : {std::pair{0, 32}, {32, 0}, {64, 0}, {0, 64}}) {
    args.a.values = columns(a);
    args.out = columns(out);
    gemm(args);
    args.c = columns(96 - a - out);
    gemm(args);
    args.c.reset();
  }
  args.a.values = columns(0);
  for (std::int64_t out : {31, 1}) {
    args.out = columns(out);
    refuses(args, {"out: found memory that overlaps a"});
  }
  args.out = columns(80);  // wraps into the next row's first columns
  args.out.shape[0] = args.a.values.shape[0] = 15;
  refuses(args, {"out: found memory that overlaps a"});
  args.out = columns(32);
  args.out.shape[0] = 15;
  args.out.strides = {95, 1};  // another pitch
  refuses(args, {"out: found memory that overlaps a"});
}

TEST_CASE("num_sms is not negative, on the CPU too") {
  Product p({.m = 2, .n = 3, .k = 4});
  CallOptions options;
  options.num_sms = -1;
  CHECK(contains(message_of<ValueError>([&] { gemm(p.args(), options); }), "num_sms: found -1"));
  Policy policy;
  policy.num_sms = -2;
  options = {};
  options.policy = &policy;
  CHECK(contains(message_of<ValueError>([&] { gemm(p.args(), options); }), "policy.num_sms"));
}
