// Quantise and dequantise for any granularity, dtype and stride. A team of threads owns a scale
// block: it finds the block's largest magnitude, then writes the factor and the values.
#pragma once

#include "common/elements.cuh"
#include "common/gemm_params.cuh"
#include "common/quantize_rule.cuh"
#include "common/simple_configs.cuh"
#include "ptx/memory.cuh"
#include "ptx/thread.cuh"

namespace deepgemm::device {

// The rows and columns of one scale block, clipped to x.
struct ScaleBlock {
  i64 row, k;  // in blocks
  i64 rows, columns;
};

template <QuantizeConfig C>
DEEPGEMM_DEVICE ScaleBlock scale_block(const QuantizeParams& p, i64 index) {
  ScaleBlock block;
  block.row = index / p.blocks_k;
  block.k = index - block.row * p.blocks_k;
  block.rows = min_of(p.rows_per_scale, p.rows - block.row * p.rows_per_scale);
  block.columns = min_of(p.k_per_scale, p.k - block.k * p.k_per_scale);
  return block;
}

template <bool Wide>
struct IndexType {
  using type = i32;
};
template <>
struct IndexType<true> {
  using type = i64;
};

// Calls f(row, column) for every element of the block, in turn over the team's threads.
template <QuantizeConfig C, class F>
DEEPGEMM_DEVICE void for_each_element(const QuantizeParams& p, const ScaleBlock& block, int member,
                                      int members, F f) {
  // A warp's block is small, a CTA's may be the whole tensor.
  using Index = typename IndexType<C.whole_cta>::type;
  const Index width = static_cast<Index>(C.k_per_scale ? C.k_per_scale : p.k_per_scale);
  const Index count = static_cast<Index>(block.rows) * width;
  const i64 row = block.row * p.rows_per_scale, column = block.k * width;
#pragma unroll 4
  for (Index i = member; i < count; i += members) {
    const Index r = i / width, c = i - r * width;
    if (c < block.columns) f(row + r, column + c);
  }
}

// The largest of the team's values, in every thread. Each CTA must call it together.
template <bool WholeCta>
DEEPGEMM_DEVICE u32 team_max(u32 value) {
#pragma unroll
  for (int mask = 16; mask > 0; mask /= 2) value = max_of(value, ptx::shuffle_xor(value, mask));
  if constexpr (WholeCta) {
    const u32 slots = ptx::dynamic_shared();
    ptx::sync_cta();
    ptx::store_shared_f32(slots + ptx::warp_index() * 4, float_from_bits(value));
    ptx::sync_cta();
    for (int i = 0; i < QuantizeConfig::threads / 32; ++i) {
      value = max_of(value, float_bits(ptx::load_shared_f32(slots + i * 4)));
    }
  }
  return value;
}

template <QuantizeConfig C, class Format>
DEEPGEMM_DEVICE void quantize_block(const QuantizeParams& p, i64 index, int member, int members) {
  const ScaleBlock block = scale_block<C>(p, index);
  const ElementType type = static_cast<ElementType>(p.wide_type);
  u32 amax_bits = 0;
  for_each_element<C>(p, block, member, members, [&](i64 r, i64 c) {
    const float x = load_element(p.wide, r * p.wide_row + c * p.wide_k, type);
    amax_bits = max_of(amax_bits, magnitude_bits(x));
  });
  float sf = scale_from_amax<Format>(team_max<C.whole_cta>(amax_bits), p.amax_floor);
  if (p.power_of_two) sf = power_of_two_scale(sf);
  const float reciprocal = reciprocal_of_scale(sf);
  for_each_element<C>(p, block, member, members, [&](i64 r, i64 c) {
    const float x = load_element(p.wide, r * p.wide_row + c * p.wide_k, type);
    static_cast<u8*>(p.values)[r * p.values_row + c * p.values_k] =
        quantize_value<Format>(x, reciprocal);
  });
  if (member == 0) {
    store_element(p.sf, block.row * p.sf_row + block.k * p.sf_k,
                  static_cast<ElementType>(p.sf_type), sf);
  }
}

template <QuantizeConfig C>
DEEPGEMM_DEVICE void quantize(const QuantizeParams& p) {
  const int members = C.whole_cta ? QuantizeConfig::threads : 32;
  const int teams = QuantizeConfig::threads / members;
  const int team = ptx::thread_index() / members, member = ptx::thread_index() % members;
  for (i64 i = static_cast<i64>(ptx::cta_index()) * teams + team; i < p.blocks;
       i += static_cast<i64>(ptx::cta_count()) * teams) {
    if constexpr (C.values_e5m2) {
      quantize_block<C, E5M2>(p, i, member, members);
    } else {
      quantize_block<C, E4M3>(p, i, member, members);
    }
  }
}

// One thread per element.
DEEPGEMM_DEVICE void dequantize(const QuantizeParams& p) {
  const i64 step = static_cast<i64>(ptx::cta_count()) * QuantizeConfig::threads;
  for (i64 i = static_cast<i64>(ptx::cta_index()) * QuantizeConfig::threads + ptx::thread_index();
       i < p.rows * p.k; i += step) {
    const i64 r = i / p.k, c = i - r * p.k;
    const float value = load_element(p.values, r * p.values_row + c * p.values_k,
                                     static_cast<ElementType>(p.values_type));
    float sf = 1.0f;
    if (p.sf != nullptr) {
      sf = load_element(p.sf, r / p.rows_per_scale * p.sf_row + c / p.k_per_scale * p.sf_k,
                        static_cast<ElementType>(p.sf_type));
    }
    const ElementType type = static_cast<ElementType>(p.wide_type);
    const float out = type == ElementType::f32 ? value * sf : dequantize_to_narrow(value, sf);
    store_element(p.wide, r * p.wide_row + c * p.wide_k, type, out);
  }
}

}  // namespace deepgemm::device
