// What quantize and dequantize launch, against the fake driver and the fake NVRTC.
#include <doctest/doctest.h>

#include "deepgemm/quantize.hpp"
#include "device/common/gemm_params.cuh"
#include "fake_driver/fake_driver.hpp"
#include "jit_fixture.hpp"
#include "planned_product.hpp"

using namespace deepgemm;
using test::PlannedProduct;

namespace {

device::QuantizeParams seen;

struct Launch {
  device::QuantizeParams params;
  unsigned grid;
};

// Quantises [rows, k] with a granularity and returns what reached the driver.
Launch quantized(std::int64_t rows, std::int64_t k, const Granularity& granularity,
                 int num_sms = 0) {
  fake::CudaState& state = fake::use_fake_driver();
  state.on_launch = [](const fake::LaunchCall& call) {
    seen = *static_cast<const device::QuantizeParams*>(call.parameters);
  };
  const ScaleExtents extents = scale_extents(granularity, rows, k);
  const TensorView x = PlannedProduct::view(1, DType::float32, rows, k);
  const TensorView values = PlannedProduct::view(2, DType::float8_e4m3fn, rows, k);
  const TensorView sf = PlannedProduct::view(3, DType::float32, extents.rows, extents.k);
  QuantizeOptions options;
  options.granularity = granularity;
  quantize(x, values, sf, options, {.num_sms = num_sms});
  state.on_launch = nullptr;
  return {seen, state.launches.back().grid};
}

}  // namespace

TEST_CASE("a granularity larger than the array is the whole array") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  const std::int64_t huge = std::int64_t{1} << 40;  // 0 if it were cut to 32 bits
  const Launch launch = quantized(33, 300, {huge, huge});
  CHECK(launch.params.rows_per_scale == 33);
  CHECK(launch.params.k_per_scale == 300);
  CHECK(launch.params.blocks == 1);
  CHECK(quantized(33, 300, {1, 128}).params.k_per_scale == 128);
  CHECK(quantized(33, 100, {1, 128}).params.k_per_scale == 100);
  CHECK(quantized(33, 0, {1, Granularity::whole}).params.k_per_scale == 1);
}

TEST_CASE("num_sms bounds the CTAs, which stride over the blocks") {
  testing::CacheDirectory directory;
  testing::use_fake_nvrtc();
  CHECK(quantized(10000, 1024, {1, 128}).grid == 132 * 16);
  CHECK(quantized(10000, 1024, {1, 128}, 40).grid == 40);
  CHECK(quantized(3, 1024, {1, 128}).grid == 3);
  const ScaledView x{PlannedProduct::view(1, DType::float8_e4m3fn, 1000, 1024),
                     PlannedProduct::view(2, DType::float32, 1000, 8), Granularity{1, 128}};
  const TensorView out = PlannedProduct::view(3, DType::float32, 1000, 1024);
  dequantize(x, out, {.num_sms = 50});
  CHECK(fake::use_fake_driver().launches.back().grid == 50);
  CHECK_THROWS_AS(quantized(3, 1024, {1, 128}, -2), ValueError);
}
