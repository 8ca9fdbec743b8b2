// Shared and global memory, register budgets, conversions to packed 16-bit.
#pragma once

#include "common/types.cuh"

namespace deepgemm::device::ptx {

// The 32-bit shared-window address of the CTA's dynamic shared memory (1024-byte aligned).
DEEPGEMM_DEVICE u32 dynamic_shared() {
  extern __shared__ __align__(1024) u8 dynamic_shared_memory[];
  return static_cast<u32>(__cvta_generic_to_shared(dynamic_shared_memory));
}

// ld.shared / st.shared (PTX ISA 9.7.9.8, 9.7.9.11)
DEEPGEMM_DEVICE float load_shared_f32(u32 address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}
DEEPGEMM_DEVICE u32 load_shared_u32(u32 address) {
  u32 value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
DEEPGEMM_DEVICE void store_shared_u32(u32 address, u32 x) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(x) : "memory");
}
struct Int4 {
  i32 x, y, z, w;
};
DEEPGEMM_DEVICE Int4 load_shared_i32x4(u32 address) {
  Int4 v;
  asm volatile("ld.shared.v4.s32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(address)
               : "memory");
  return v;
}
// st.global.v4.s32; 16-byte aligned.
DEEPGEMM_DEVICE void store_global_i32x4(void* address, const Int4& v) {
  asm volatile("st.global.v4.s32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(v.x), "r"(v.y),
               "r"(v.z), "r"(v.w)
               : "memory");
}
DEEPGEMM_DEVICE void store_shared_i32x4(u32 address, i32 x, i32 y, i32 z, i32 w) {
  asm volatile("st.shared.v4.s32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(x), "r"(y), "r"(z),
               "r"(w)
               : "memory");
}
DEEPGEMM_DEVICE void store_shared_f32x2(u32 address, float x, float y) {
  asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(address), "f"(x), "f"(y) : "memory");
}
DEEPGEMM_DEVICE void store_shared_f32(u32 address, float x) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(x) : "memory");
}
DEEPGEMM_DEVICE void load_shared_f32x4(float (&v)[4], u32 address) {
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v[0]), "=f"(v[1]), "=f"(v[2]), "=f"(v[3])
               : "r"(address)
               : "memory");
}
DEEPGEMM_DEVICE void store_shared_f32x4(u32 address, const float (&v)[4]) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(v[0]), "f"(v[1]),
               "f"(v[2]), "f"(v[3])
               : "memory");
}
DEEPGEMM_DEVICE void load_shared_f32x2(float& x, float& y, u32 address) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(x), "=f"(y) : "r"(address) : "memory");
}
// mapa.shared::cluster.u32 + st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32
//   [addr], {...}, [mbarrier]; (PTX ISA 9.7.9.23, 9.7.9.12; sm_90): into the same offset of CTA
// `rank` of the cluster, whose barrier at the offset of `barrier` counts the 16 bytes. Why not a
// plain store and a cluster barrier: its release is a MEMBAR over the whole GPU.
DEEPGEMM_DEVICE void store_remote_f32x4(u32 address, int rank, const float (&v)[4], u32 barrier) {
  asm volatile(
      "{\n.reg .b32 remote, counter;\nmapa.shared::cluster.u32 remote, %0, %1;\n"
      "mapa.shared::cluster.u32 counter, %6, %1;\n"
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [remote], "
      "{%2, %3, %4, %5}, [counter];\n}\n" ::"r"(address),
      "r"(rank), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier)
      : "memory");
}
// ld.global.f32 (PTX ISA 9.7.9.8). Not .nc: under programmatic dependent launch the previous kernel
// may write while this one already runs, and the load must stay behind the wait.
DEEPGEMM_DEVICE float load_global_f32(const float* address) {
  float value;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(address) : "memory");
  return value;
}
// prefetch.global.L1 [addr]; (PTX ISA 9.7.9.16)
DEEPGEMM_DEVICE void prefetch_l1(const void* address) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
}

// stmatrix.sync.aligned.m8n8.x4.shared.b16 [addr], {a, b, c, d}; (PTX ISA 9.7.14.5; sm_90)
// Lane l gives the address of row l % 8 of matrix l / 8.
DEEPGEMM_DEVICE void store_matrix_x4(u32 address, u32 a, u32 b, u32 c, u32 d) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(a), "r"(b), "r"(c), "r"(d)
               : "memory");
}

// movmatrix.sync.aligned.m8n8.trans.b16 d, a; (PTX ISA 9.7.14.6) An 8x8 matrix of 16-bit elements,
// two neighbours of row lane / 4 in each lane, transposed.
DEEPGEMM_DEVICE u32 transpose_matrix(u32 a) {
  u32 result;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(a));
  return result;
}

// cvt.rn.bf16x2.f32 d, hi, lo; cvt.rn.f16x2.f32 d, hi, lo; (PTX ISA 9.7.9.22; sm_80)
DEEPGEMM_DEVICE u32 pack_bf16(float low, float high) {
  u32 packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
DEEPGEMM_DEVICE u32 pack_f16(float low, float high) {
  u32 packed;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}
// The two halves of a packed pair, exactly. cvt.f32.f16 d, a; (PTX ISA 9.7.9.22)
DEEPGEMM_DEVICE void unpack_bf16(float& low, float& high, u32 packed) {
  low = __uint_as_float(packed << 16);
  high = __uint_as_float(packed & 0xFFFF0000U);
}
DEEPGEMM_DEVICE void unpack_f16(float& low, float& high, u32 packed) {
  asm("{\n.reg .b16 l, h;\nmov.b32 {l, h}, %2;\ncvt.f32.f16 %0, l;\ncvt.f32.f16 %1, h;\n}\n"
      : "=f"(low), "=f"(high)
      : "r"(packed));
}
// setmaxnreg.{inc,dec}.sync.aligned.u32 n; (PTX ISA 9.7.19.5; sm_90a) 0 does nothing.
template <int Registers>
DEEPGEMM_DEVICE void raise_registers() {
  if constexpr (Registers > 0) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
  }
}
template <int Registers>
DEEPGEMM_DEVICE void lower_registers() {
  if constexpr (Registers > 0) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
  }
}

}  // namespace deepgemm::device::ptx
