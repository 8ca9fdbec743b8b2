// D = A B for every dtype, granularity, layout and stride, by FP32 FMA. The path for problems that
// the tensor-core kernels cannot take: right, not fast.
//
// 256 threads compute a 64 x 64 tile, 4 x 4 sums each, from dequantised panels of 32 of K in shared
// memory. One CTA per tile; no pipeline. kernels/general_grouped.cuh walks groups with the same
// tile.
#pragma once

#include "common/elements.cuh"
#include "common/gemm_params.cuh"
#include "common/simple_configs.cuh"
#include "epilogue/transform.cuh"
#include "ptx/memory.cuh"
#include "ptx/thread.cuh"

namespace deepgemm::device {

// Dequantised elements of rows first_row.. and k first_k.. into a [k][row] panel; zeros outside.
DEEPGEMM_DEVICE void load_panel(u32 panel, const OperandParams& x, i64 first_row, i64 rows,
                                i64 first_k, i64 k) {
  using Config = GeneralConfig;
  const bool k_contiguous = x.k == 1;
#pragma unroll 1
  for (int i = ptx::thread_index(); i < Config::tile * Config::panel_k; i += Config::threads) {
    const int r = k_contiguous ? i / Config::panel_k : i % Config::tile;
    const int c = k_contiguous ? i % Config::panel_k : i / Config::tile;
    const i64 row = first_row + r, column = first_k + c;
    float value = 0.0f;
    if (row < rows && column < k) {
      value = load_element(x.data, row * x.row + column * x.k, static_cast<ElementType>(x.type));
      if (x.sf != nullptr) {
        const i64 scale = row / x.rows_per_scale * x.sf_row + column / x.k_per_scale * x.sf_k;
        value *= load_element(x.sf, scale, static_cast<ElementType>(x.sf_type));
      }
    }
    ptx::store_shared_f32(panel + (c * Config::pitch + r) * 4, value);
  }
}

DEEPGEMM_DEVICE void multiply_panels(float (&sum)[4][4], u32 panel_a, u32 panel_b, int row,
                                     int column) {
#pragma unroll 4
  for (int k = 0; k < GeneralConfig::panel_k; ++k) {
    const u32 line = k * GeneralConfig::pitch;
    float a[4], b[4];
    ptx::load_shared_f32x4(a, panel_a + (line + row) * 4);
    ptx::load_shared_f32x4(b, panel_b + (line + column) * 4);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) sum[i][j] += a[i] * b[j];
    }
  }
}

// The tile of the CTA that starts at (first_row, first_column), clipped at p.m and p.n.
DEEPGEMM_DEVICE void general_tile(const GeneralGemmParams& p, i64 first_row, i64 first_column) {
  using Config = GeneralConfig;
  const u32 panel_a = ptx::dynamic_shared(), panel_b = panel_a + Config::panel_bytes;
  const int row = ptx::thread_index() / 16 * 4, column = ptx::thread_index() % 16 * 4;
  float sum[4][4] = {};
#pragma unroll 1
  for (i64 k = 0; k < p.k; k += Config::panel_k) {
    load_panel(panel_a, p.a, first_row, p.m, k, p.k);
    load_panel(panel_b, p.b, first_column, p.n, k, p.k);
    ptx::sync_cta();
    multiply_panels(sum, panel_a, panel_b, row, column);
    ptx::sync_cta();
  }
  // Rolled: the sums go through shared memory, so that the transform is compiled once.
#pragma unroll
  for (int i = 0; i < 16; ++i) {
    ptx::store_shared_f32(panel_a + (i * Config::threads + ptx::thread_index()) * 4,
                          sum[i / 4][i % 4]);
  }
#pragma unroll 1
  for (int i = 0; i < 16; ++i) {
    const i64 m = first_row + row + i / 4, n = first_column + column + i % 4;
    if (m >= p.m || n >= p.n) continue;
    const float value =
        ptx::load_shared_f32(panel_a + (i * Config::threads + ptx::thread_index()) * 4);
    store_element(p.out, m * p.out_row + n * p.out_column,
                  static_cast<ElementType>(p.epilogue.out_type),
                  transform(value, p.epilogue, m, n));
  }
}

DEEPGEMM_DEVICE void general_gemm(const GeneralGemmParams& p) {
  constexpr i64 tile = GeneralConfig::tile;
  const i64 tiles_n = ceil_div(p.n, tile);
  general_tile(p, ptx::cta_index() / tiles_n * tile, ptx::cta_index() % tiles_n * tile);
}

}  // namespace deepgemm::device
