#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>

#include "deepgemm/gemm.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::Random;
using test::Tensor;

namespace {

constexpr std::int64_t whole = Granularity::whole;

// One product with its operands; a is read as [M, K] and b as [N, K] whatever the layout.
struct Case {
  std::int64_t m, n, k;
  DType a_type = DType::float8_e4m3fn, b_type = DType::float8_e4m3fn;
  DType out_type = DType::float32;
  Layout layout = Layout::nt;
  std::optional<Granularity> a_scaling = std::nullopt, b_scaling = std::nullopt;
};

bool a_swapped(Layout layout) { return layout == Layout::tn || layout == Layout::tt; }
bool b_swapped(Layout layout) { return layout == Layout::nn || layout == Layout::tt; }

struct Product {
  explicit Product(const Case& c, std::uint64_t seed = 1)
      : shape(c),
        a(c.a_type, {a_swapped(c.layout) ? c.k : c.m, a_swapped(c.layout) ? c.m : c.k}),
        b(c.b_type, {b_swapped(c.layout) ? c.k : c.n, b_swapped(c.layout) ? c.n : c.k}),
        out(c.out_type, {c.m, c.n}),
        random(seed) {
    fill([this] { return random.real(-4, 4); });
    if (c.a_scaling) sfa.emplace(make_scales(*c.a_scaling, c.m));
    if (c.b_scaling) sfb.emplace(make_scales(*c.b_scaling, c.n));
  }

  template <class Function>
  void fill(Function&& next) {
    a.fill([&](auto, auto) { return next(); });
    b.fill([&](auto, auto) { return next(); });
  }

  Tensor make_scales(const Granularity& g, std::int64_t rows) {
    ScaleExtents extents = scale_extents(g, rows, shape.k);
    Tensor sf(DType::float32, {extents.rows, extents.k});
    sf.fill([&](auto, auto) { return std::exp2(random.real(-3, 3)); });
    return sf;
  }

  GemmArgs args() const {
    GemmArgs args;
    args.a.values = a.view;
    args.b.values = b.view;
    args.out = out.view;
    args.layout = shape.layout;
    if (sfa) args.a.sf = sfa->view, args.a.granularity = shape.a_scaling;
    if (sfb) args.b.sf = sfb->view, args.b.granularity = shape.b_scaling;
    return args;
  }

  static double factor(const std::optional<Tensor>& sf, const std::optional<Granularity>& g,
                       std::int64_t row, std::int64_t k) {
    if (!sf) return 1;
    return sf->at(g->rows == whole ? 0 : row / g->rows, g->k == whole ? 0 : k / g->k);
  }
  double a_value(std::int64_t i, std::int64_t k) const {
    double stored = a_swapped(shape.layout) ? a.at(k, i) : a.at(i, k);
    return stored * factor(sfa, shape.a_scaling, i, k);
  }
  double b_value(std::int64_t j, std::int64_t k) const {
    double stored = b_swapped(shape.layout) ? b.at(k, j) : b.at(j, k);
    return stored * factor(sfb, shape.b_scaling, j, k);
  }
  // The naive sum in double, and the sum of magnitudes, which bounds its rounding errors.
  std::pair<double, double> expected(std::int64_t i, std::int64_t j) const {
    double sum = 0, magnitude = 0;
    for (std::int64_t k = 0; k < shape.k; ++k) {
      double product = a_value(i, k) * b_value(j, k);
      sum += product;
      magnitude += std::abs(product);
    }
    return {sum, magnitude};
  }

  // Largest error of out, relative to the bound.
  double worst_error() const {
    double worst = 0;
    for (std::int64_t i = 0; i < shape.m; ++i) {
      for (std::int64_t j = 0; j < shape.n; ++j) {
        auto [sum, magnitude] = expected(i, j);
        worst = std::max(worst, std::abs(out.at(i, j) - sum) / std::max(magnitude, 1e-30));
      }
    }
    return worst;
  }

  Case shape;
  Tensor a, b, out;
  std::optional<Tensor> sfa, sfb;
  Random random;
};

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

TEST_CASE("alpha, bias, activation, c, in this order") {
  for (auto activation : {Activation::none, Activation::relu, Activation::gelu,
                          Activation::gelu_tanh, Activation::silu}) {
    for (DType bias_type : {DType::float32, DType::bfloat16, DType::float16}) {
      Product p({.m = 5, .n = 70, .k = 64});
      Tensor bias(bias_type, {70}), c(DType::float32, {5, 70});
      bias.fill([&](auto, auto) { return p.random.real(-3, 3); });
      c.fill([&](auto, auto) { return p.random.real(-3, 3); });
      GemmArgs args = p.args();
      args.alpha = 0.05F;
      args.bias = bias.view;
      args.c = c.view;
      args.activation = activation;
      gemm(args);
      for (std::int64_t i = 0; i < 5; ++i) {
        for (std::int64_t j = 0; j < 70; ++j) {
          double x = static_cast<double>(args.alpha) * p.expected(i, j).first + bias.at(j);
          double y = x;
          if (activation == Activation::relu) y = std::max(x, 0.0);
          if (activation == Activation::gelu) y = x * (1 + std::erf(x / std::sqrt(2.0))) / 2;
          if (activation == Activation::gelu_tanh) {
            double root = std::sqrt(2 / 3.14159265358979323846);
            y = x * (1 + std::tanh(root * (x + 0.044715 * x * x * x))) / 2;
          }
          if (activation == Activation::silu) y = x / (1 + std::exp(-x));
          REQUIRE(p.out.at(i, j) == doctest::Approx(y + c.at(i, j)).epsilon(1e-4));
        }
      }
    }
  }
}

TEST_CASE("c may be out itself: twice is double") {
  for (DType type : {DType::float32, DType::bfloat16, DType::float8_e4m3fn}) {
    Product p({.m = 33, .n = 70, .k = 64, .out_type = type});
    p.fill([&] { return static_cast<double>(p.random.integer(0, 1)); });
    GemmArgs args = p.args();
    args.out_scale = is_float8(type) ? 8.0F : 1.0F;
    p.a.fill([](auto, auto) { return 1; });
    p.b.fill([](auto, auto) { return 0.25; });
    args.c = args.out;
    gemm(args);
    double once = p.out.at(3, 5);
    CHECK(once * args.out_scale == 16);
    gemm(args);
    CHECK(p.out.at(3, 5) == 2 * once);
    CHECK(p.out.at(32, 69) == 2 * once);
  }
}

TEST_CASE("float8 out: divided by out_scale and saturated") {
  for (DType type : {DType::float8_e4m3fn, DType::float8_e5m2}) {
    Product p({.m = 3, .n = 4, .k = 32, .out_type = type});
    p.a.fill([](auto i, auto) { return i == 0 ? 100.0 : 1.0; });
    p.b.fill([](auto j, auto) { return j == 3 ? -64.0 : 1.0; });
    GemmArgs args = p.args();
    args.out_scale = 4.0F;
    gemm(args);
    CHECK(p.out.at(1, 0) == 8);
    CHECK(p.out.at(0, 0) == (type == DType::float8_e4m3fn ? 448 : 768));  // 800 to a code of e5m2
    CHECK(p.out.at(0, 3) == (type == DType::float8_e4m3fn ? -448 : -49152));
    CHECK(p.out.at(2, 3) == -448 * (type == DType::float8_e4m3fn ? 1 : 512.0 / 448));
  }
}

TEST_CASE("K = 0 gives activation(bias) + c") {
  Product p({.m = 2,
             .n = 3,
             .k = 0,
             .a_scaling = Granularity{1, 128},
             .b_scaling = Granularity{128, 128}});
  GemmArgs args = p.args();
  p.out.fill([](auto, auto) { return 99; });
  gemm(args);
  CHECK(p.out.at(1, 2) == 0);
  Tensor bias(DType::float32, {3}), c(DType::float32, {2, 3});
  bias.fill([](auto j, auto) { return j - 1; });
  c.fill([](auto i, auto) { return 10 * (i + 1); });
  args.bias = bias.view;
  args.c = c.view;
  args.activation = Activation::relu;
  gemm(args);
  CHECK(p.out.at(0, 0) == 10);
  CHECK(p.out.at(1, 2) == 21);
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
  test::Environment bad("DEEPGEMM_CPU_THREADS", "-1");
  CHECK_THROWS_AS(gemm(p.args()), ValueError);
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

TEST_CASE("fast enough for tests") {
  Product p({.m = 1024,
             .n = 1536,
             .k = 384,
             .out_type = DType::bfloat16,
             .a_scaling = Granularity{1, 128},
             .b_scaling = Granularity{128, 128}});
  auto start = std::chrono::steady_clock::now();
  gemm(p.args());
  std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  MESSAGE("1024 x 1536 x 384: ", seconds.count(), " s");
  CHECK(seconds.count() < 5);  // 0.1 s on two cores; the slack is for sanitizers and busy machines
}
