#include <algorithm>
#include <vector>

#include "backend/cpu/cpu_backend.hpp"
#include "backend/cpu/elements.hpp"
#include "backend/cpu/parallel.hpp"
#include "backend/cpu/scales.hpp"
#include "core/math.hpp"
#include "device/common/quantize_rule.cuh"

namespace deepgemm::cpu {
namespace {

namespace rule = deepgemm::device;

// Extent of a block: `whole` is all of it (and at least 1, to divide by).
std::int64_t block_extent(std::int64_t granularity, std::int64_t extent) {
  return granularity == Granularity::whole ? std::max<std::int64_t>(extent, 1) : granularity;
}

template <class Format>
class Quantizer {
 public:
  Quantizer(const TensorView& x, const TensorView& values, const TensorView& sf,
            const QuantizeOptions& options)
      : x_(x),
        values_(values),
        options_(options),
        extents_(scale_extents(options.granularity, x.shape[0], x.shape[1])),
        sf_(as_matrix(sf, extents_)),
        block_rows_(block_extent(options.granularity.rows, x.shape[0])),
        block_k_(block_extent(options.granularity.k, x.shape[1])) {}

  void run() const {
    std::int64_t rows_per_block = std::min(block_rows_, std::max<std::int64_t>(x_.shape[0], 1));
    parallel_for(extents_.rows, product_or_max({rows_per_block, x_.shape[1], 8}),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t block = begin; block < end; ++block) run_block_row(block);
                 });
  }

 private:
  // All blocks of one row of blocks: the amax of each, then the factors, then the values.
  void run_block_row(std::int64_t block) const {
    std::int64_t begin = block * block_rows_;
    std::int64_t end = begin + std::min(block_rows_, x_.shape[0] - begin);
    std::int64_t k = x_.shape[1];
    std::vector<float> row(checked_elements<float>("x", {k}));
    std::vector<rule::u32> amax(checked_elements<rule::u32>("sf", {extents_.k}), 0);
    for (std::int64_t r = begin; r < end; ++r) {
      load(row_of(x_, r, 0, k), row.data());
      for (std::int64_t j = 0; j < k; ++j) {
        rule::u32& largest = amax[static_cast<std::size_t>(j / block_k_)];
        largest = std::max(largest, rule::magnitude_bits(row[static_cast<std::size_t>(j)]));
      }
    }
    std::vector<float> reciprocals = store_factors(block, amax);
    for (std::int64_t r = begin; r < end; ++r) quantize_row(r, reciprocals, row);
  }

  std::vector<float> store_factors(std::int64_t block, const std::vector<rule::u32>& amax) const {
    std::vector<float> factors(amax.size()), reciprocals(amax.size());
    for (std::size_t j = 0; j < amax.size(); ++j) {
      float sf = rule::scale_from_amax<Format>(amax[j], options_.amax_floor);
      if (options_.power_of_two) sf = rule::power_of_two_scale(sf);
      factors[j] = sf;
      reciprocals[j] = rule::reciprocal_of_scale(sf);
    }
    store(row_of(sf_, block, 0, extents_.k), factors.data());
    return reciprocals;
  }

  void quantize_row(std::int64_t r, const std::vector<float>& reciprocals,
                    std::vector<float>& row) const {
    std::int64_t k = x_.shape[1];
    load(row_of(x_, r, 0, k), row.data());
    auto to = static_cast<Format::Code*>(values_.data) + r * values_.strides[0];
    for (std::int64_t j = 0; j < k; ++j) {
      to[j * values_.strides[1]] = rule::quantize_value<Format>(
          row[static_cast<std::size_t>(j)], reciprocals[static_cast<std::size_t>(j / block_k_)]);
    }
  }

  const TensorView& x_;
  const TensorView& values_;
  const QuantizeOptions& options_;
  ScaleExtents extents_;
  TensorView sf_;
  std::int64_t block_rows_, block_k_;
};

}  // namespace

void quantize(const TensorView& x, const TensorView& values, const TensorView& sf,
              const QuantizeOptions& options) {
  if (values.dtype == DType::float8_e4m3fn) {
    Quantizer<rule::E4M3>(x, values, sf, options).run();
  } else {
    Quantizer<rule::E5M2>(x, values, sf, options).run();
  }
}

void dequantize(const ScaledView& x, const TensorView& out) {
  std::int64_t rows = out.shape[0], k = out.shape[1];
  if (rows == 0 || k == 0) return;
  // In double the product of a value and its factor is exact, so that store() rounds once.
  ScaleTable<double> sf(x.sf, x.granularity.value_or(per_tensor), rows, k);
  parallel_for(rows, product_or_max({k, 8}), [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> row(checked_elements<double>("values", {k}));
    for (std::int64_t r = begin; r < end; ++r) {
      load(row_of(x.values, r, 0, k), row.data());
      for (std::int64_t j = 0; j < k; ++j) row[static_cast<std::size_t>(j)] *= sf.at(r, j);
      store(row_of(out, r, 0, k), row.data());
    }
  });
}

}  // namespace deepgemm::cpu
