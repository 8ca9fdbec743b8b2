#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "deepgemm/gemm.hpp"
#include "gemm_case.hpp"

using namespace deepgemm;
using test::Product;
using test::Tensor;

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
