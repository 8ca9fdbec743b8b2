// The reference product. One thread takes whole rows, so that no sum depends on the thread count:
//   for a block of rows, for a tile of columns: for a segment of K: partial = a . b; sum += sf *
//   partial
#include <algorithm>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/elements.hpp"
#include "backend/cpu/epilogue.hpp"
#include "backend/cpu/parallel.hpp"
#include "backend/cpu/scales.hpp"
#include "core/math.hpp"
#include "device/common/quantize_rule.cuh"

namespace deepgemm::cpu {
namespace {

constexpr std::int64_t promotion_k = 128;  // the longest sum before promotion, as on the GPU
// Why: a segment of a tile, 128 x 64 floats, is 32 KiB and stays in the first-level cache.
constexpr std::int64_t tile_n = 64;
constexpr std::int64_t block_m = 32;

// a as [M, K] and b as [N, K], whatever the layout. Their factors come so.
TensorView rows_by_k(const TensorView& view, bool is_transposed) {
  return is_transposed ? transposed(view) : view;
}

// b converted to numbers, as tiles of [K][tile_n]; the last one is padded with zeros.
template <class Real>
class Panels {
 public:
  Panels(const TensorView& b, std::int64_t n, std::int64_t k) : k_(k) {
    const std::int64_t tiles = ceil_div(n, tile_n);
    values_.resize(checked_elements<Real>("b", {tiles, k, tile_n}));
    parallel_for(tiles, product_or_max({k, tile_n}), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t tile = begin; tile < end; ++tile) fill(b, tile, n);
    });
  }
  // Row k of the tile: tile_n numbers.
  const Real* row(std::int64_t tile, std::int64_t k) const {
    return values_.data() + (tile * k_ + k) * tile_n;
  }

 private:
  void fill(const TensorView& b, std::int64_t tile, std::int64_t n) {
    std::int64_t first = tile * tile_n;
    std::int64_t width = std::min(tile_n, n - first);
    for (std::int64_t k = 0; k < k_; ++k) {
      Run run{b, first * b.strides[0] + k * b.strides[1], b.strides[0], width};
      load(run, values_.data() + (tile * k_ + k) * tile_n);
    }
  }

  std::int64_t k_;
  std::vector<Real> values_;
};

// partial[0, tile_n) = a[0, count) . the tile's rows from `b` on.
template <class Real>
void multiply(const Real* a, const Real* b, std::int64_t count, Real* __restrict partial) {
  std::fill_n(partial, tile_n, Real(0));
  for (std::int64_t k = 0; k < count; ++k, b += tile_n) {
    for (std::int64_t n = 0; n < tile_n; ++n) partial[n] += a[k] * b[n];
  }
}

template <class Real>
class Gemm {
 public:
  Gemm(const GemmProblem& problem, const GemmArgs& args)
      : problem_(problem),
        args_(args),
        a_(rows_by_k(args.a.values, a_is_k_by_m(problem.layout))),
        sfa_(args.a.sf, problem.a_granularity, problem.m, problem.k),
        sfb_(args.b.sf, problem.b_granularity, problem.n, problem.k),
        panels_(rows_by_k(args.b.values, b_is_k_by_n(problem.layout)), problem.n, problem.k),
        bias_(checked_elements<Real>("bias", {problem.n})) {
    if (args.bias) load(Run{*args.bias, 0, args.bias->strides[0], problem.n}, bias_.data());
  }

  void run(const RowRange& range) const {
    const std::int64_t blocks = ceil_div(range.end - range.begin, block_m);
    std::int64_t cost = product_or_max({block_m, problem_.n, problem_.k / 4 + 8});
    parallel_for(blocks, cost, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        const std::int64_t first_row = range.begin + block * block_m;
        run_rows(first_row, std::min(block_m, range.end - first_row));
      }
    });
  }

 private:
  void run_rows(std::int64_t first_row, std::int64_t rows) const {
    std::vector<Real> a(checked_elements<Real>("a", {rows, problem_.k}));
    for (std::int64_t i = 0; i < rows; ++i) {
      load(row_of(a_, first_row + i, 0, problem_.k), a.data() + i * problem_.k);
    }
    std::vector<Real> sums(static_cast<std::size_t>(rows * tile_n));
    for (std::int64_t n = 0; n < problem_.n; n += tile_n) {
      std::fill(sums.begin(), sums.end(), Real(0));
      accumulate(a, first_row, n, sums);
      for (std::int64_t i = 0; i < rows; ++i) {
        finish(first_row + i, n, std::min(tile_n, problem_.n - n), sums.data() + i * tile_n);
      }
    }
  }

  // sums[rows][tile_n] += over all K, segment by segment: no segment crosses a scale block.
  void accumulate(const std::vector<Real>& a, std::int64_t first_row, std::int64_t first_n,
                  std::vector<Real>& sums) const {
    std::int64_t rows = static_cast<std::int64_t>(sums.size()) / tile_n;
    std::int64_t width = std::min(tile_n, problem_.n - first_n);
    Real sfb[tile_n] = {};
    Real partial[tile_n];
    for (std::int64_t k = 0; k < problem_.k;) {
      std::int64_t end = std::min(problem_.k, (k / promotion_k + 1) * promotion_k);
      end = sfb_.end_of_block(k, sfa_.end_of_block(k, end));
      for (std::int64_t n = 0; n < width; ++n) sfb[n] = sfb_.at(first_n + n, k);
      for (std::int64_t i = 0; i < rows; ++i) {
        multiply(a.data() + i * problem_.k + k, panels_.row(first_n / tile_n, k), end - k, partial);
        Real sfa = sfa_.at(first_row + i, k);
        Real* sum = sums.data() + i * tile_n;
        for (std::int64_t n = 0; n < tile_n; ++n) sum[n] += sfa * sfb[n] * partial[n];
      }
      k = end;
    }
  }

  // Turns one row of sums into stored elements. c may be out: each element is read before its own
  // place is written, by the one thread that has this row.
  void finish(std::int64_t row, std::int64_t first_n, std::int64_t width, Real* sum) const {
    for (std::int64_t n = 0; n < width; ++n) {
      Real value = problem_.has_alpha ? Real(args_.alpha) * sum[n] : sum[n];
      if (problem_.has_bias) value += bias_[static_cast<std::size_t>(first_n + n)];
      sum[n] = activate(problem_.activation, value);
    }
    if (problem_.has_c) {
      Real c[tile_n];
      load(row_of(*args_.c, row, first_n, width), c);
      // c in out's own float8 holds what an earlier call stored there: real values / out_scale.
      const Real c_scale = is_float8(args_.c->dtype) ? Real(args_.out_scale) : Real(1);
      for (std::int64_t n = 0; n < width; ++n) sum[n] += c_scale * c[n];
    }
    if (is_float8(problem_.out_dtype)) {
      // The rounded reciprocal, as in quantize(), whose result this must equal.
      const Real reciprocal = Real(device::reciprocal_of_scale(args_.out_scale));
      for (std::int64_t n = 0; n < width; ++n) sum[n] *= reciprocal;
    }
    store(row_of(args_.out, row, first_n, width), sum);
  }

  const GemmProblem& problem_;
  const GemmArgs& args_;
  TensorView a_;
  ScaleTable<Real> sfa_, sfb_;
  Panels<Real> panels_;
  std::vector<Real> bias_;
};

}  // namespace

void gemm_rows(const GemmProblem& problem, const GemmArgs& args, std::span<const RowRange> ranges,
               bool accumulate_in_f64) {
  if (problem.m == 0 || problem.n == 0) return;
  if (accumulate_in_f64) {
    const Gemm<double> product(problem, args);
    for (const RowRange& range : ranges) product.run(range);
  } else {
    const Gemm<float> product(problem, args);
    for (const RowRange& range : ranges) product.run(range);
  }
}

void gemm(const GemmProblem& problem, const GemmArgs& args, bool accumulate_in_f64) {
  const RowRange all{0, problem.m};
  gemm_rows(problem, args, std::span(&all, 1), accumulate_in_f64);
}

}  // namespace deepgemm::cpu
