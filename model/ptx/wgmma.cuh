// src/device/ptx/wgmma.cuh on the modelled machine: the partial accumulators are the machine's.
#pragma once

#include "common/gemm_config.cuh"
#include "common/types.cuh"
#include "machine/api.hpp"
#include "ptx/thread.cuh"

namespace deepgemm::device::ptx {

inline void declare_partials() {}
inline void wgmma_fence(const Where& where = Where::current()) { sm90::wgmma_fence(where); }
inline void wgmma_commit(const Where& where = Where::current()) { sm90::wgmma_commit(where); }
template <int Pending = 0>
void wgmma_wait(const Where& where = Where::current()) {
  sm90::wgmma_wait(Pending, where);
}
inline float multiply_here(float a, float b) { return a * b; }

constexpr sm90::Format format_of(ElementType type) {
  switch (type) {
    case ElementType::e5m2:
      return sm90::Format::e5m2;
    case ElementType::bf16:
      return sm90::Format::bf16;
    case ElementType::f16:
      return sm90::Format::f16;
    default:
      return sm90::Format::e4m3;
  }
}

template <int Columns, ElementType TypeA, ElementType TypeB, int Slot>
struct Wgmma {
  template <int Accumulate>
  static void multiply(u64 a, u64 b, const Where& where = Where::current()) {
    static_assert(bytes_of(TypeA) == 1 && bytes_of(TypeB) == 1);
    sm90::wgmma(Columns, format_of(TypeA), format_of(TypeB), Slot, Accumulate != 0, a, b, false,
                false, where);
  }
  template <int MnMajorA, int MnMajorB>
  static void accumulate(u64 a, u64 b, i32 adds, const Where& where = Where::current()) {
    static_assert(bytes_of(TypeA) == 2 && TypeA == TypeB);
    sm90::wgmma(Columns, format_of(TypeA), format_of(TypeB), Slot, adds != 0, a, b, MnMajorA != 0,
                MnMajorB != 0, where);
  }
};

template <int Group, int Slot>
struct Promote {
  static void apply(float* sum, float s0, float s1, float s2, float s3,
                    const Where& where = Where::current()) {
    const float scale[4] = {s0, s1, s2, s3};
    for (int i = 0; i < 4; ++i) {
      const int element = 4 * Group + i;
      sum[element] = std::fma(scale[i], sm90::partial(Slot, element, where), sum[element]);
    }
  }
};

template <int Group, int Slot>
struct Partial {
  static void read(float* sum, const Where& where = Where::current()) {
    for (int i = 0; i < 4; ++i) sum[4 * Group + i] = sm90::partial(Slot, 4 * Group + i, where);
  }
  static void add(float x0, float x1, float x2, float x3, const Where& where = Where::current()) {
    const float x[4] = {x0, x1, x2, x3};
    for (int i = 0; i < 4; ++i) sm90::partial(Slot, 4 * Group + i, where) += x[i];
  }
};

}  // namespace deepgemm::device::ptx
