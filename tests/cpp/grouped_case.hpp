// Grouped products with exact operands (small integers, factors that are powers of two) and the
// naive answer, for the tests of the grouped operations.
#pragma once

#include <cmath>
#include <cstring>
#include <optional>
#include <vector>

#include "deepgemm/grouped.hpp"
#include "test_tensors.hpp"

namespace test {

using namespace deepgemm;

// Element i of a row-major tensor of any rank.
inline double flat(const Tensor& tensor, std::int64_t i) {
  double value = 0;
  cpu::load(cpu::Run{tensor.view, i, 1, 1}, &value);
  return value;
}
inline void set_flat(Tensor& tensor, std::int64_t i, double value) {
  cpu::store(cpu::Run{tensor.view, i, 1, 1}, &value);
}
template <class Function>
Tensor& fill_flat(Tensor& tensor, Function&& next) {
  for (std::int64_t i = 0; i < tensor.view.size(); ++i) set_flat(tensor, i, next());
  return tensor;
}

// A group vector of int32 or int64.
struct Vector {
  explicit Vector(const std::vector<std::int64_t>& values, DType dtype = DType::int32)
      : memory(values.size() * 8 + 1) {
    const auto count = static_cast<std::int64_t>(values.size());
    view = make_view(memory.data(), dtype, {count});
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (dtype == DType::int64) {
        std::memcpy(&memory[i * 8], &values[i], 8);
      } else {
        const auto narrow = static_cast<std::int32_t>(values[i]);
        std::memcpy(&memory[i * 4], &narrow, 4);
      }
    }
  }
  std::vector<unsigned char> memory;
  TensorView view;
};

constexpr double sentinel = -777;

// a [M, K] or [G, M, K], b [G, N, K], FP8 with (1, 128) and (128, 128) factors.
struct RowGroups {
  RowGroups(std::int64_t groups, std::int64_t rows, std::int64_t columns, std::int64_t extent_k,
            bool masked, std::uint64_t seed = 1)
      : m(rows),
        n(columns),
        k(extent_k),
        blocks((extent_k + 127) / 128),
        a(DType::float8_e4m3fn, {masked ? groups : 1, m, k}),
        b(DType::float8_e4m3fn, {groups, n, k}),
        sfa(DType::float32, {masked ? groups : 1, m, blocks}),
        sfb(DType::float32, {groups, (n + 127) / 128, blocks}),
        out(DType::float32, {masked ? groups : 1, m, n}) {
    Random random(seed);
    for (Tensor* values : {&a, &b}) {
      fill_flat(*values, [&] { return double(random.integer(-2, 2)); });
    }
    for (Tensor* factors : {&sfa, &sfb}) {
      fill_flat(*factors, [&] { return std::exp2(double(random.integer(-2, 2))); });
    }
    fill_flat(out, [] { return sentinel; });
    args.b = {b.view, sfb.view, std::nullopt};
    args.a = {masked ? a.view : selected(a.view, 0), masked ? sfa.view : selected(sfa.view, 0),
              std::nullopt};
    args.out = masked ? out.view : selected(out.view, 0);
  }

  // The product of row `row` of a (in matrix `matrix`) and column `column` of group g.
  double expected(std::int64_t matrix, std::int64_t row, std::int64_t g,
                  std::int64_t column) const {
    double sum = 0;
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t a_row = matrix * m + row, b_row = g * n + column;
      const double factor_b = flat(sfb, (g * ((n + 127) / 128) + column / 128) * blocks + i / 128);
      sum += flat(a, a_row * k + i) * flat(sfa, a_row * blocks + i / 128) * flat(b, b_row * k + i) *
             factor_b;
    }
    return sum;
  }

  // Whether each row of out is that of its group: owner(matrix, row) is the group or -1.
  template <class Owner>
  bool is_right(Owner&& owner) const {
    for (std::int64_t matrix = 0; matrix < out.view.shape[0]; ++matrix) {
      for (std::int64_t row = 0; row < m; ++row) {
        const std::int64_t g = owner(matrix, row);
        for (std::int64_t column = 0; column < n; ++column) {
          const double found = flat(out, (matrix * m + row) * n + column);
          if (found != (g < 0 ? sentinel : expected(matrix, row, g, column))) return false;
        }
      }
    }
    return true;
  }

  std::int64_t m, n, k, blocks;
  Tensor a, b, sfa, sfb, out;
  RowGroupArgs args;
};

// args of one kind, with what all kinds share.
template <class Args>
Args as(const RowGroups& groups) {
  Args args;
  static_cast<RowGroupArgs&>(args) = groups.args;
  return args;
}

}  // namespace test
