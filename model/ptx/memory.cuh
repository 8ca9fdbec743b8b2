// src/device/ptx/memory.cuh on the modelled machine.
#pragma once

#include "common/float_formats.cuh"
#include "common/types.cuh"
#include "machine/api.hpp"
#include "ptx/thread.cuh"

namespace deepgemm::device::ptx {

inline u32 dynamic_shared() { return sm90::dynamic_shared(); }

inline float load_shared_f32(u32 address, const Where& where = Where::current()) {
  float value;
  sm90::read_shared(&value, address, 4, where);
  return value;
}
inline u32 load_shared_u32(u32 address, const Where& where = Where::current()) {
  u32 value;
  sm90::read_shared(&value, address, 4, where);
  return value;
}
inline void store_shared_u32(u32 address, u32 x, const Where& where = Where::current()) {
  sm90::write_shared(address, &x, 4, where);
}
struct Int4 {
  i32 x, y, z, w;
};
inline Int4 load_shared_i32x4(u32 address, const Where& where = Where::current()) {
  Int4 value;
  sm90::read_shared(&value, address, 16, where);
  return value;
}
inline void store_global_i32x4(void* address, const Int4& value) {
  *static_cast<Int4*>(address) = value;
}
inline void store_shared_i32x4(u32 address, i32 x, i32 y, i32 z, i32 w,
                               const Where& where = Where::current()) {
  const Int4 value{x, y, z, w};
  sm90::write_shared(address, &value, 16, where);
}
inline void store_shared_f32x2(u32 address, float x, float y,
                               const Where& where = Where::current()) {
  const float value[2] = {x, y};
  sm90::write_shared(address, value, 8, where);
}
inline void store_shared_f32(u32 address, float x, const Where& where = Where::current()) {
  sm90::write_shared(address, &x, 4, where);
}
inline void load_shared_f32x4(float (&v)[4], u32 address, const Where& where = Where::current()) {
  sm90::read_shared(v, address, 16, where);
}
inline void store_shared_f32x4(u32 address, const float (&v)[4],
                               const Where& where = Where::current()) {
  sm90::write_shared(address, v, 16, where);
}
inline void load_shared_f32x2(float& x, float& y, u32 address,
                              const Where& where = Where::current()) {
  float value[2];
  sm90::read_shared(value, address, 8, where);
  x = value[0];
  y = value[1];
}
inline void store_remote_f32x4(u32 address, int rank, const float (&v)[4], u32 barrier,
                               const Where& where = Where::current()) {
  sm90::write_remote_async(address, rank, v, 16, barrier, where);
}
inline float load_global_f32(const float* address, const Where& where = Where::current()) {
  return sm90::load_global_f32(address, where);
}
inline void prefetch_l1(const void*) {}

inline void store_matrix_x4(u32 address, u32 a, u32 b, u32 c, u32 d,
                            const Where& where = Where::current()) {
  sm90::store_matrices(address, {a, b, c, d}, where);
}
inline u32 transpose_matrix(u32 a, const Where& where = Where::current()) {
  return sm90::transpose_matrix(a, where);
}

inline u32 pack_bf16(float low, float high) {
  return float_to_bfloat16(low) | static_cast<u32>(float_to_bfloat16(high)) << 16;
}
inline u32 pack_f16(float low, float high) {
  return float_to_half(low) | static_cast<u32>(float_to_half(high)) << 16;
}

inline void unpack_bf16(float& low, float& high, u32 packed) {
  low = bfloat16_to_float(static_cast<u16>(packed));
  high = bfloat16_to_float(static_cast<u16>(packed >> 16));
}
inline void unpack_f16(float& low, float& high, u32 packed) {
  low = half_to_float(static_cast<u16>(packed));
  high = half_to_float(static_cast<u16>(packed >> 16));
}

template <int Registers>
void raise_registers(const Where& where = Where::current()) {
  if constexpr (Registers > 0) sm90::set_registers(Registers, true, where);
}
template <int Registers>
void lower_registers(const Where& where = Where::current()) {
  if constexpr (Registers > 0) sm90::set_registers(Registers, false, where);
}

}  // namespace deepgemm::device::ptx
