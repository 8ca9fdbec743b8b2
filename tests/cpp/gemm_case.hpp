// One product with its operands and the naive answer in double, for the tests of gemm().
#pragma once

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "deepgemm/gemm.hpp"
#include "test_tensors.hpp"

namespace test {

using namespace deepgemm;

constexpr std::int64_t whole = Granularity::whole;

// One product with its operands; granularities are (rows, k) whatever the layout.
struct Case {
  std::int64_t m, n, k;
  DType a_type = DType::float8_e4m3fn, b_type = DType::float8_e4m3fn;
  DType out_type = DType::float32;
  Layout layout = Layout::nt;
  std::optional<Granularity> a_scaling = std::nullopt, b_scaling = std::nullopt;
};

inline bool a_swapped(Layout layout) { return layout == Layout::tn || layout == Layout::tt; }
inline bool b_swapped(Layout layout) { return layout == Layout::nn || layout == Layout::tn; }

struct Product {
  explicit Product(const Case& c, std::uint64_t seed = 1)
      : shape(c),
        a(c.a_type, {a_swapped(c.layout) ? c.k : c.m, a_swapped(c.layout) ? c.m : c.k}),
        b(c.b_type, {b_swapped(c.layout) ? c.k : c.n, b_swapped(c.layout) ? c.n : c.k}),
        out(c.out_type, {c.m, c.n}),
        random(seed) {
    fill([this] { return random.real(-4, 4); });
    if (c.a_scaling) sfa.emplace(make_scales(*c.a_scaling, c.m, a_swapped(c.layout)));
    if (c.b_scaling) sfb.emplace(make_scales(*c.b_scaling, c.n, b_swapped(c.layout)));
  }

  template <class Function>
  void fill(Function&& next) {
    a.fill([&](auto, auto) { return next(); });
    b.fill([&](auto, auto) { return next(); });
  }

  // Factors lie as their values do.
  Tensor make_scales(const Granularity& g, std::int64_t rows, bool swapped) {
    ScaleExtents extents = scale_extents(g, rows, shape.k);
    Tensor sf(DType::float32,
              {swapped ? extents.k : extents.rows, swapped ? extents.rows : extents.k});
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
                       std::int64_t row, std::int64_t k, bool swapped) {
    if (!sf) return 1;
    const std::int64_t i = g->rows == whole ? 0 : row / g->rows, j = g->k == whole ? 0 : k / g->k;
    return swapped ? sf->at(j, i) : sf->at(i, j);
  }
  double a_value(std::int64_t i, std::int64_t k) const {
    double stored = a_swapped(shape.layout) ? a.at(k, i) : a.at(i, k);
    return stored * factor(sfa, shape.a_scaling, i, k, a_swapped(shape.layout));
  }
  double b_value(std::int64_t j, std::int64_t k) const {
    double stored = b_swapped(shape.layout) ? b.at(k, j) : b.at(j, k);
    return stored * factor(sfb, shape.b_scaling, j, k, b_swapped(shape.layout));
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

}  // namespace test
