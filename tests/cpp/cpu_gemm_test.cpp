#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "deepgemm/gemm.hpp"
#include "gemm_case.hpp"

using namespace deepgemm;
using test::Case;
using test::Product;
using test::Tensor;
using test::whole;

namespace {

double tolerance(DType out_type) {
  if (out_type == DType::bfloat16) return 0x1p-8;
  if (out_type == DType::float16) return 0x1p-10;
  return 2e-6;
}

CallOptions in_f64() {
  CallOptions options;
  options.accumulate_in_f64 = true;
  return options;
}

void check(const Case& c) {
  Product p(c);
  gemm(p.args());
  CHECK(p.worst_error() < tolerance(c.out_type));
  gemm(p.args(), in_f64());
  CHECK(p.worst_error() < (c.out_type == DType::float32 ? 1e-7 : tolerance(c.out_type)));
}

const DType value_types[] = {DType::float8_e4m3fn, DType::float8_e5m2, DType::bfloat16,
                             DType::float16, DType::float32};

}  // namespace

TEST_CASE("every pair of dtypes") {
  for (DType a : value_types) {
    for (DType b : value_types) {
      CAPTURE(name(a));
      CAPTURE(name(b));
      check({.m = 5, .n = 70, .k = 131, .a_type = a, .b_type = b});
    }
  }
}

TEST_CASE("every layout, with tails and scales") {
  for (Layout layout : {Layout::nt, Layout::nn, Layout::tn, Layout::tt}) {
    for (DType out : {DType::float32, DType::bfloat16, DType::float16}) {
      check({.m = 33,
             .n = 130,
             .k = 200,
             .out_type = out,
             .layout = layout,
             .a_scaling = Granularity{1, 128},
             .b_scaling = Granularity{128, 128}});
    }
  }
}

TEST_CASE("every granularity against every other") {
  const Granularity all[] = {{1, 128}, {128, 128},  per_tensor,  {1, whole}, {1, 32},
                             {3, 7},   {whole, 64}, {64, whole}, {1, 1},     {200, 300}};
  for (const Granularity& a : all) {
    for (const Granularity& b : all) {
      CAPTURE(describe(a));
      CAPTURE(describe(b));
      check({.m = 7, .n = 140, .k = 270, .a_scaling = a, .b_scaling = b});
    }
    check({.m = 7, .n = 14, .k = 270, .a_scaling = a});
    check({.m = 7, .n = 14, .k = 270, .b_type = DType::bfloat16, .a_scaling = a});
  }
}

TEST_CASE("awkward extents") {
  for (std::int64_t m : {1, 31, 32, 65}) {
    for (std::int64_t n : {1, 63, 64, 129}) {
      for (std::int64_t k : {1, 127, 128, 129, 257}) {
        check({.m = m,
               .n = n,
               .k = k,
               .a_scaling = Granularity{1, 128},
               .b_scaling = Granularity{128, 128}});
      }
    }
  }
}

TEST_CASE("integers are exact") {
  Product p({.m = 40,
             .n = 70,
             .k = 300,
             .a_scaling = Granularity{1, 128},
             .b_scaling = Granularity{128, 128}});
  p.fill([&] { return static_cast<double>(p.random.integer(-8, 8)); });
  p.sfa->fill([&](auto i, auto) { return i % 2 ? 2.0 : 0.5; });
  p.sfb->fill([&](auto, auto k) { return k % 2 ? 4.0 : 1.0; });
  gemm(p.args());
  CHECK(p.worst_error() == 0);
}

TEST_CASE("inputs with negative, zero and padded strides; out with padded and swapped ones") {
  Product p({.m = 9, .n = 20, .k = 50});
  SUBCASE("negative") {
    p.a.view.data = p.a.memory.data() + 8 * 50 + 49;
    p.a.view.strides = {-50, -1};
  }
  SUBCASE("zero") { p.b.view.strides = {0, 1}; }
  SUBCASE("overlapping rows of a") { p.a.view.strides = {3, 1}; }
  SUBCASE("padded out keeps its padding") {
    p.out.memory.assign(9 * 32 * 4, 0x5a);
    p.out.view.data = p.out.memory.data();
    p.out.view.strides = {32, 1};
  }
  SUBCASE("column-major out") { p.out.view.strides = {1, 9}; }
  SUBCASE("mirrored out") {
    p.out.view.data = p.out.memory.data() + 4 * (9 * 20 - 1);
    p.out.view.strides = {-20, -1};
  }
  gemm(p.args());
  CHECK(p.worst_error() < 2e-6);
  if (p.out.view.strides[0] == 32) {
    for (std::size_t i = 20 * 4; i < 32 * 4; ++i) CHECK(p.out.memory[i] == 0x5a);
  }
}

TEST_CASE("e8m0 factors are exact powers of two") {
  Product p(
      {.m = 4, .n = 6, .k = 96, .a_scaling = Granularity{1, 32}, .b_scaling = Granularity{1, 32}});
  for (auto* sf : {&p.sfa, &p.sfb}) {
    Tensor codes(DType::float8_e8m0fnu, {(*sf)->view.shape[0], (*sf)->view.shape[1]});
    codes.fill([](auto i, auto k) { return std::exp2(static_cast<double>(i % 5 - k)); });
    sf->emplace(std::move(codes));
  }
  gemm(p.args());
  CHECK(p.worst_error() < 2e-6);
}

TEST_CASE("a per-tensor sf of rank 0 or 1") {
  Product p({.m = 4, .n = 6, .k = 96, .a_scaling = per_tensor, .b_scaling = per_tensor});
  GemmArgs args = p.args();
  args.a.sf->rank = 0;
  args.b.sf->rank = 1;
  args.b.sf->strides = {77, 77};
  args.a.granularity.reset();
  args.b.granularity.reset();
  gemm(args);
  CHECK(p.worst_error() < 2e-6);
}

TEST_CASE("M = 0 or N = 0 does nothing") {
  Product no_rows({.m = 0, .n = 3, .k = 8});
  gemm(no_rows.args());
  Product no_columns({.m = 3,
                      .n = 0,
                      .k = 8,
                      .a_scaling = Granularity{1, 128},
                      .b_scaling = Granularity{128, 128}});
  gemm(no_columns.args());
}

TEST_CASE("NaN and Inf stay in their row or column") {
  Case shape{.m = 40,
             .n = 200,
             .k = 300,
             .a_scaling = Granularity{1, 128},
             .b_scaling = Granularity{1, 128}};
  Product clean(shape), dirty(shape);
  SUBCASE("a factor of a") { dirty.sfa->set(7, 1, NAN); }
  SUBCASE("an infinite factor of a") { dirty.sfa->set(7, 1, INFINITY); }
  SUBCASE("a value of a") { dirty.a.set(7, 299, NAN); }
  SUBCASE("a factor of b") { dirty.sfb->set(150, 2, NAN); }
  SUBCASE("a value of b") { dirty.b.set(150, 0, NAN); }
  gemm(clean.args());
  gemm(dirty.args());
  bool in_row = dirty.out.at(7, 0) != clean.out.at(7, 0);
  for (std::int64_t i = 0; i < 40; ++i) {
    for (std::int64_t j = 0; j < 200; ++j) {
      bool tainted = in_row ? i == 7 : j == 150;
      if (tainted)
        REQUIRE_FALSE(std::isfinite(dirty.out.at(i, j)));
      else
        REQUIRE(dirty.out.at(i, j) == clean.out.at(i, j));
    }
  }
}

TEST_CASE("a factor of 0 gives 0, and extreme factors stay finite") {
  Product p({.m = 4,
             .n = 5,
             .k = 128,
             .a_scaling = Granularity{1, 128},
             .b_scaling = Granularity{1, 128}});
  for (int exponent : {-100, -60, 0, 60, 100}) {
    p.sfa->fill([&](auto i, auto) { return i == 2 ? 0.0 : std::ldexp(1.0, exponent); });
    p.sfb->fill([&](auto, auto) { return std::ldexp(1.0, -exponent); });
    gemm(p.args());
    CHECK(p.out.at(2, 3) == 0);
    CHECK(p.worst_error() < 2e-6);
  }
}

TEST_CASE("the thread count does not change a bit") {
  Case shape{.m = 300,
             .n = 200,
             .k = 500,
             .a_scaling = Granularity{1, 128},
             .b_scaling = Granularity{128, 128}};
  Product p(shape);
  std::vector<unsigned char> first;
  for (const char* threads : {"1", "2", "3", "7"}) {
    test::Environment set("DEEPGEMM_CPU_THREADS", threads);
    gemm(p.args());
    if (first.empty()) first = p.out.memory;
    CHECK(first == p.out.memory);
  }
  test::Environment bad("DEEPGEMM_CPU_THREADS", "-1");  // a warning, and as if it were not set
  gemm(p.args());
  CHECK(first == p.out.memory);
}

TEST_CASE("a row does not depend on how many there are") {
  Case shape{.m = 70,
             .n = 100,
             .k = 300,
             .a_scaling = Granularity{1, 128},
             .b_scaling = Granularity{128, 128}};
  Product p(shape);
  gemm(p.args());
  GemmArgs args = p.args();
  Tensor row(DType::float32, {1, 100});
  args.a.values.shape[0] = 1;
  args.a.sf->shape[0] = 1;
  args.out = row.view;
  gemm(args);
  for (std::int64_t j = 0; j < 100; ++j) CHECK(row.at(0, j) == p.out.at(0, j));
}

TEST_CASE("a batch is its products one by one, bit for bit") {
  constexpr std::int64_t count = 3, m = 5, n = 70, k = 200;
  Product p({.m = count * m, .n = count * n, .k = k});
  Tensor sfa(DType::float32, {count * m, 2}), sfb(DType::float32, {count, 2});
  for (Tensor* sf : {&sfa, &sfb}) {
    sf->fill([&](auto, auto) { return std::exp2(p.random.real(-3, 3)); });
  }
  Tensor bias(DType::float32, {n});
  bias.fill([&](auto, auto) { return p.random.real(-4, 4); });
  Tensor out(DType::float32, {count, m, n}), one(DType::float32, {m, n});
  const auto stack = [](const TensorView& view, std::int64_t rows) {
    return make_view(view.data, view.dtype, {view.shape[0] / rows, rows, view.shape[1]});
  };
  GemmArgs args;
  args.a = {stack(p.a.view, m), stack(sfa.view, m), Granularity{1, 128}};
  args.b = {stack(p.b.view, n), stack(sfb.view, 1), Granularity{128, 128}};
  args.out = out.view;
  args.bias = bias.view;
  args.activation = Activation::silu;
  SUBCASE("each its own") {}
  SUBCASE("b for all") { args.b.values.strides[0] = args.b.sf->strides[0] = 0; }
  SUBCASE("mirrored") {
    args.a.values.data = selected(args.a.values, count - 1).data;
    args.a.values.strides[0] *= -1;
  }
  SUBCASE("out with gaps, accumulated") {
    out.memory.assign(static_cast<std::size_t>(4 * count * m * (n + 9)), 0);
    args.out.data = out.memory.data();
    args.out.strides = {m * (n + 9), n + 9, 1};
    args.c = args.out;
  }
  for (const CallOptions& options : {CallOptions{}, in_f64()}) {
    gemm(args, options);
    for (std::int64_t i = 0; i < count; ++i) {
      GemmArgs product = args;
      product.a = {selected(args.a.values, i), selected(*args.a.sf, i), args.a.granularity};
      product.b = {selected(args.b.values, i), selected(*args.b.sf, i), args.b.granularity};
      product.out = one.view;
      product.c.reset();
      if (options.accumulate_in_f64 && args.c) continue;  // what the first round left is added
      gemm(product, options);
      const TensorView found = selected(args.out, i);
      for (std::int64_t row = 0; row < m; ++row) {
        const auto* line = static_cast<float*>(found.data) + row * found.strides[0];
        for (std::int64_t column = 0; column < n; ++column) {
          CHECK(line[column] == static_cast<float>(one.at(row, column)));
        }
      }
    }
  }
}
