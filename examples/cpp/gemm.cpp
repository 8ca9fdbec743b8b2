// out = A @ B^T in FP8 with (1, 128) and (128, 128) factors, in host memory: runs anywhere.
#include <cstdint>
#include <cstdio>
#include <deepgemm/deepgemm.hpp>
#include <exception>
#include <vector>

using deepgemm::DType, deepgemm::Granularity, deepgemm::make_view;

int main() try {
  constexpr std::int64_t m = 4, n = 256, k = 512;
  std::vector<float> a(m * k, 1.75F), b(n * k, 3.5F), sfa(m * k / 128), sfb(n / 128 * (k / 128));
  std::vector<std::uint8_t> a8(m * k), b8(n * k);
  std::vector<float> out(m * n);

  const deepgemm::ScaledView left{make_view(a8.data(), DType::float8_e4m3fn, {m, k}),
                                  make_view(sfa.data(), DType::float32, {m, k / 128}),
                                  Granularity{1, 128}};
  const deepgemm::ScaledView right{make_view(b8.data(), DType::float8_e4m3fn, {n, k}),
                                   make_view(sfb.data(), DType::float32, {n / 128, k / 128}),
                                   Granularity{128, 128}};
  deepgemm::quantize(make_view(a.data(), DType::float32, {m, k}), left.values, *left.sf,
                     {.granularity = {1, 128}});
  deepgemm::quantize(make_view(b.data(), DType::float32, {n, k}), right.values, *right.sf,
                     {.granularity = {128, 128}});
  deepgemm::gemm({.a = left, .b = right, .out = make_view(out.data(), DType::float32, {m, n})});

  std::printf("out[0] = %g, need 1.75 * 3.5 * 512 = 3136\n", static_cast<double>(out[0]));
  return out[0] == 3136.0F ? 0 : 1;
} catch (const std::exception& error) {  // ValueError, TypeError, Error
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
