#include <doctest/doctest.h>

#include <cmath>

#include "deepgemm/quantize.hpp"
#include "test_tensors.hpp"

using namespace deepgemm;
using test::Random;
using test::Tensor;

namespace {

constexpr std::int64_t whole = Granularity::whole;

struct Quantized {
  Quantized(const Tensor& x, const QuantizeOptions& options, DType dtype = DType::float8_e4m3fn,
            DType sf_type = DType::float32)
      : extents(scale_extents(options.granularity, x.view.shape[0], x.view.shape[1])),
        values(dtype, {x.view.shape[0], x.view.shape[1]}),
        sf(sf_type, {extents.rows, extents.k}) {
    quantize(x.view, values.view, sf.view, options);
  }
  ScaleExtents extents;
  Tensor values, sf;
};

Tensor random_x(DType dtype, std::int64_t rows, std::int64_t k) {
  Tensor x(dtype, {rows, k});
  Random random(3);
  x.fill([&](auto, auto) { return random.real(-1, 1) * std::exp2(random.real(-6, 6)); });
  return x;
}

// The nearest float8 to a float, by looking at all codes.
double nearest(float value, DType dtype) {
  Tensor all(dtype, {256});
  for (int code = 0; code < 256; ++code)
    all.memory[static_cast<std::size_t>(code)] = static_cast<unsigned char>(code);
  double best = NAN;
  int best_code = 0;
  for (int code = 0; code < 256; ++code) {
    double candidate = all.at(code);
    if (!std::isfinite(candidate)) continue;
    double distance = std::abs(candidate - value), best_distance = std::abs(best - value);
    bool tie_to_even = distance == best_distance && (code & 1) == 0 && (best_code & 1) == 1;
    if (std::isnan(best) || distance < best_distance || tie_to_even)
      best = candidate, best_code = code;
  }
  return best;
}

}  // namespace

TEST_CASE("values and factors follow the contract, in every granularity and dtype") {
  const Granularity all[] = {{1, 128}, {128, 128}, per_tensor, {1, whole}, {1, 32}, {3, 50}};
  for (const Granularity& g : all) {
    for (DType x_type : {DType::float32, DType::bfloat16, DType::float16, DType::float64}) {
      for (DType dtype : {DType::float8_e4m3fn, DType::float8_e5m2}) {
        for (bool power_of_two : {false, true}) {
          Tensor x = random_x(x_type, 7, 150);
          Quantized q(x, {g, power_of_two, 1e-4F}, dtype);
          float max_finite = dtype == DType::float8_e4m3fn ? 448.0F : 57344.0F;
          for (std::int64_t i = 0; i < q.extents.rows; ++i) {
            for (std::int64_t j = 0; j < q.extents.k; ++j) {
              std::int64_t r0 = g.rows == whole ? 0 : i * g.rows, k0 = g.k == whole ? 0 : j * g.k;
              std::int64_t r1 = g.rows == whole ? 7 : std::min<std::int64_t>(7, r0 + g.rows);
              std::int64_t k1 = g.k == whole ? 150 : std::min<std::int64_t>(150, k0 + g.k);
              float amax = 1e-4F;
              for (auto r = r0; r < r1; ++r) {
                for (auto k = k0; k < k1; ++k) {
                  amax = std::max(amax, static_cast<float>(std::abs(x.at(r, k))));
                }
              }
              float sf = amax / max_finite;
              if (power_of_two) sf = static_cast<float>(std::exp2(std::ceil(std::log2(sf))));
              REQUIRE(q.sf.at(i, j) == sf);
              float reciprocal = 1.0F / sf;
              // A few elements: the search for the nearest is slow.
              for (auto r = r0; r < r1; r += 3) {
                for (auto k = k0; k < k1; k += 17) {
                  float scaled = static_cast<float>(x.at(r, k)) * reciprocal;
                  REQUIRE(q.values.at(r, k) == nearest(scaled, dtype));
                }
              }
            }
          }
        }
      }
    }
  }
}

TEST_CASE("exact powers stay, one ulp above doubles") {
  Tensor x(DType::float32, {2, 128});
  x.set(0, 5, 448.0);
  x.set(1, 5, std::nextafterf(448.0F, 500.0F));
  Quantized q(x, {{1, 128}, true, 1e-4F});
  CHECK(q.sf.at(0, 0) == 1);
  CHECK(q.sf.at(1, 0) == 2);
  Quantized codes(x, {{1, 128}, true, 1e-4F}, DType::float8_e4m3fn, DType::float8_e8m0fnu);
  CHECK(codes.sf.memory[0] == 127);
  CHECK(codes.sf.memory[1] == 128);
  CHECK(codes.values.memory == q.values.memory);
}

TEST_CASE("zeros take the floor; no floor gives factor 0 and still no NaN") {
  Tensor x(DType::bfloat16, {2, 128});
  Quantized q(x, {});
  CHECK(q.sf.at(0, 0) == 1e-4F / 448.0F);
  CHECK(q.values.at(0, 0) == 0);
  Quantized bare(x, {{1, 128}, false, 0.0F});
  CHECK(bare.sf.at(0, 0) == 0);
  CHECK(bare.values.at(1, 127) == 0);
}

TEST_CASE("NaN and Inf stay in their block") {
  Tensor x = random_x(DType::float32, 4, 256);
  Quantized clean(x, {});
  x.set(1, 130, NAN);
  x.set(2, 3, -INFINITY);
  Quantized q(x, {});
  CHECK(std::isnan(q.sf.at(1, 1)));
  CHECK(std::isinf(q.sf.at(2, 0)));
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t k = 0; k < 256; ++k) {
      if (i == 1 && k >= 128)
        CHECK(std::isnan(q.values.at(i, k)));
      else if (i == 2 && k < 128)
        CHECK((k == 3 ? std::isnan(q.values.at(i, k)) : q.values.at(i, k) == 0));
      else
        CHECK(q.values.at(i, k) == clean.values.at(i, k));
    }
  }
  CHECK(q.sf.at(2, 1) == clean.sf.at(2, 1));
}

TEST_CASE("any strides") {
  Tensor x = random_x(DType::float32, 6, 140);
  Quantized plain(x, {});
  Tensor values(DType::float8_e4m3fn, {140, 6}), sf(DType::float32, {2, 6});
  quantize(x.view, transposed(values.view), transposed(sf.view), {});
  for (std::int64_t i = 0; i < 6; ++i) {
    for (std::int64_t k = 0; k < 140; ++k) REQUIRE(values.at(k, i) == plain.values.at(i, k));
    for (std::int64_t j = 0; j < 2; ++j) CHECK(sf.at(j, i) == plain.sf.at(i, j));
  }
}

TEST_CASE("empty arrays") {
  Tensor no_k(DType::float32, {3, 0});
  Quantized per_row(no_k, {{1, whole}, false, 1e-4F});
  CHECK(per_row.sf.at(2, 0) == 1e-4F / 448.0F);
  Tensor no_rows(DType::float32, {0, 128});
  Quantized tensor(no_rows, {per_tensor, false, 1e-4F});
  CHECK(tensor.sf.at(0, 0) == 1e-4F / 448.0F);
  Quantized blocks(no_rows, {});
}

TEST_CASE("dequantize gives values * sf, rounded once") {
  Tensor x = random_x(DType::float32, 5, 300);
  for (const Granularity& g : {Granularity{1, 128}, per_tensor, Granularity{2, 77}}) {
    Quantized q(x, {g, false, 1e-4F});
    ScaledView scaled{q.values.view, q.sf.view, g};
    Tensor single(DType::float32, {5, 300}), half(DType::bfloat16, {5, 300});
    Tensor full(DType::float64, {5, 300});
    dequantize(scaled, single.view);
    dequantize(scaled, half.view);
    dequantize(scaled, full.view);
    for (std::int64_t i = 0; i < 5; ++i) {
      for (std::int64_t k = 0; k < 300; ++k) {
        double sf = q.sf.at(g.rows == whole ? 0 : i / g.rows, g.k == whole ? 0 : k / g.k);
        double exact = q.values.at(i, k) * sf;
        REQUIRE(full.at(i, k) == exact);
        REQUIRE(single.at(i, k) == static_cast<float>(exact));
        REQUIRE(std::abs(half.at(i, k) - exact) <= std::abs(exact) * 0x1p-8);
      }
    }
  }
}

TEST_CASE("dequantize without factors converts") {
  Tensor x(DType::float8_e5m2, {1, 3}), out(DType::float16, {1, 3});
  x.set(0, 1, 1.5);
  dequantize({x.view, std::nullopt, std::nullopt}, out.view);
  CHECK(out.at(0, 1) == 1.5);
}

TEST_CASE("the thread count does not change a bit") {
  Tensor x = random_x(DType::float32, 300, 1000);
  test::Environment one("DEEPGEMM_CPU_THREADS", "1");
  Quantized first(x, {});
  test::Environment five("DEEPGEMM_CPU_THREADS", "5");
  Quantized second(x, {});
  CHECK(first.values.memory == second.values.memory);
  CHECK(first.sf.memory == second.sf.memory);
}
