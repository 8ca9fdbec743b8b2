// WGMMA on a partial accumulator that lives in named PTX registers.
// Why named registers and not "+f" operands: the compiler then sees no loop-carried values that
// WGMMA writes, so that it neither copies accumulators nor serialises the instruction (ptxas C7514),
// and a wide instruction needs no list of 64 operands.
#pragma once

#include "common/gemm_config.cuh"
#include "common/types.cuh"

namespace deepgemm::device::ptx {

// Once per kernel, before the first wgmma(). Only registers that are used take room.
DEEPGEMM_DEVICE void declare_partial() { asm volatile(".reg .f32 partial<128>;"); }

// wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned N;
// (PTX ISA 9.7.15.7; sm_90a)
DEEPGEMM_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEEPGEMM_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
DEEPGEMM_DEVICE void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

// Operand lists: four registers for each 8 columns.
#define DEEPGEMM_PARTIAL_8 "partial0, partial1, partial2, partial3"
#define DEEPGEMM_PARTIAL_16 \
  DEEPGEMM_PARTIAL_8 ", partial4, partial5, partial6, partial7"
#define DEEPGEMM_PARTIAL_24 \
  DEEPGEMM_PARTIAL_16 ", partial8, partial9, partial10, partial11"
#define DEEPGEMM_PARTIAL_32 \
  DEEPGEMM_PARTIAL_24 ", partial12, partial13, partial14, partial15"
#define DEEPGEMM_PARTIAL_40 \
  DEEPGEMM_PARTIAL_32 ", partial16, partial17, partial18, partial19"
#define DEEPGEMM_PARTIAL_48 \
  DEEPGEMM_PARTIAL_40 ", partial20, partial21, partial22, partial23"
#define DEEPGEMM_PARTIAL_56 \
  DEEPGEMM_PARTIAL_48 ", partial24, partial25, partial26, partial27"
#define DEEPGEMM_PARTIAL_64 \
  DEEPGEMM_PARTIAL_56 ", partial28, partial29, partial30, partial31"
#define DEEPGEMM_PARTIAL_72 \
  DEEPGEMM_PARTIAL_64 ", partial32, partial33, partial34, partial35"
#define DEEPGEMM_PARTIAL_80 \
  DEEPGEMM_PARTIAL_72 ", partial36, partial37, partial38, partial39"
#define DEEPGEMM_PARTIAL_88 \
  DEEPGEMM_PARTIAL_80 ", partial40, partial41, partial42, partial43"
#define DEEPGEMM_PARTIAL_96 \
  DEEPGEMM_PARTIAL_88 ", partial44, partial45, partial46, partial47"
#define DEEPGEMM_PARTIAL_104 \
  DEEPGEMM_PARTIAL_96 ", partial48, partial49, partial50, partial51"
#define DEEPGEMM_PARTIAL_112 \
  DEEPGEMM_PARTIAL_104 ", partial52, partial53, partial54, partial55"
#define DEEPGEMM_PARTIAL_120 \
  DEEPGEMM_PARTIAL_112 ", partial56, partial57, partial58, partial59"
#define DEEPGEMM_PARTIAL_128 \
  DEEPGEMM_PARTIAL_120 ", partial60, partial61, partial62, partial63"
#define DEEPGEMM_PARTIAL_136 \
  DEEPGEMM_PARTIAL_128 ", partial64, partial65, partial66, partial67"
#define DEEPGEMM_PARTIAL_144 \
  DEEPGEMM_PARTIAL_136 ", partial68, partial69, partial70, partial71"
#define DEEPGEMM_PARTIAL_152 \
  DEEPGEMM_PARTIAL_144 ", partial72, partial73, partial74, partial75"
#define DEEPGEMM_PARTIAL_160 \
  DEEPGEMM_PARTIAL_152 ", partial76, partial77, partial78, partial79"
#define DEEPGEMM_PARTIAL_168 \
  DEEPGEMM_PARTIAL_160 ", partial80, partial81, partial82, partial83"
#define DEEPGEMM_PARTIAL_176 \
  DEEPGEMM_PARTIAL_168 ", partial84, partial85, partial86, partial87"
#define DEEPGEMM_PARTIAL_184 \
  DEEPGEMM_PARTIAL_176 ", partial88, partial89, partial90, partial91"
#define DEEPGEMM_PARTIAL_192 \
  DEEPGEMM_PARTIAL_184 ", partial92, partial93, partial94, partial95"
#define DEEPGEMM_PARTIAL_200 \
  DEEPGEMM_PARTIAL_192 ", partial96, partial97, partial98, partial99"
#define DEEPGEMM_PARTIAL_208 \
  DEEPGEMM_PARTIAL_200 ", partial100, partial101, partial102, partial103"
#define DEEPGEMM_PARTIAL_216 \
  DEEPGEMM_PARTIAL_208 ", partial104, partial105, partial106, partial107"
#define DEEPGEMM_PARTIAL_224 \
  DEEPGEMM_PARTIAL_216 ", partial108, partial109, partial110, partial111"
#define DEEPGEMM_PARTIAL_232 \
  DEEPGEMM_PARTIAL_224 ", partial112, partial113, partial114, partial115"
#define DEEPGEMM_PARTIAL_240 \
  DEEPGEMM_PARTIAL_232 ", partial116, partial117, partial118, partial119"
#define DEEPGEMM_PARTIAL_248 \
  DEEPGEMM_PARTIAL_240 ", partial120, partial121, partial122, partial123"
#define DEEPGEMM_PARTIAL_256 \
  DEEPGEMM_PARTIAL_248 ", partial124, partial125, partial126, partial127"

// wgmma.mma_async.sync.aligned.m64nNk32.f32.TA.TB d, a-desc, b-desc, scale-d, 1, 1;
// (PTX ISA 9.7.15.5; sm_90a) partial (+)= A[64, 32] * B[N, 32]^T; TA, TB in e4m3, e5m2.
template <int Columns, ElementType TypeA, ElementType TypeB>
struct Wgmma;

#define DEEPGEMM_WGMMA_FP8(columns, type_a, type_b)                                              \
  template <>                                                                                    \
  struct Wgmma<columns, ElementType::type_a, ElementType::type_b> {                              \
    template <int Accumulate>                                                                    \
    static DEEPGEMM_DEVICE void multiply(u64 a, u64 b) {                                         \
      asm volatile(                                                                              \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n"                                            \
          "wgmma.mma_async.sync.aligned.m64n" #columns "k32.f32." #type_a "." #type_b            \
          " {" DEEPGEMM_PARTIAL_##columns "}, %0, %1, p, 1, 1;\n}\n" ::"l"(a),                   \
          "l"(b), "n"(Accumulate));                                                              \
    }                                                                                            \
  };
#define DEEPGEMM_WGMMA_ALL_FP8(columns)        \
  DEEPGEMM_WGMMA_FP8(columns, e4m3, e4m3)      \
  DEEPGEMM_WGMMA_FP8(columns, e4m3, e5m2)      \
  DEEPGEMM_WGMMA_FP8(columns, e5m2, e4m3)      \
  DEEPGEMM_WGMMA_FP8(columns, e5m2, e5m2)

DEEPGEMM_WGMMA_ALL_FP8(16)
DEEPGEMM_WGMMA_ALL_FP8(32)
DEEPGEMM_WGMMA_ALL_FP8(48)
DEEPGEMM_WGMMA_ALL_FP8(64)
DEEPGEMM_WGMMA_ALL_FP8(80)
DEEPGEMM_WGMMA_ALL_FP8(96)
DEEPGEMM_WGMMA_ALL_FP8(112)
DEEPGEMM_WGMMA_ALL_FP8(128)
DEEPGEMM_WGMMA_ALL_FP8(144)
DEEPGEMM_WGMMA_ALL_FP8(160)
DEEPGEMM_WGMMA_ALL_FP8(176)
DEEPGEMM_WGMMA_ALL_FP8(192)

// sum[4 g + i] += scale * partial[4 g + i], where g counts groups of 8 columns: elements 0 and 1 lie in
// row lane / 4, elements 2 and 3 eight rows below.
template <int Group>
struct Promote;

#define DEEPGEMM_PROMOTE(group, r0, r1, r2, r3)                                                  \
  template <>                                                                                    \
  struct Promote<group> {                                                                        \
    static DEEPGEMM_DEVICE void apply(float* sum, float upper, float lower) {                    \
      asm volatile("fma.rn.f32 %0, %1, partial" #r0 ", %0;" : "+f"(sum[r0]) : "f"(upper));       \
      asm volatile("fma.rn.f32 %0, %1, partial" #r1 ", %0;" : "+f"(sum[r1]) : "f"(upper));       \
      asm volatile("fma.rn.f32 %0, %1, partial" #r2 ", %0;" : "+f"(sum[r2]) : "f"(lower));       \
      asm volatile("fma.rn.f32 %0, %1, partial" #r3 ", %0;" : "+f"(sum[r3]) : "f"(lower));       \
    }                                                                                            \
  };

DEEPGEMM_PROMOTE(0, 0, 1, 2, 3)
DEEPGEMM_PROMOTE(1, 4, 5, 6, 7)
DEEPGEMM_PROMOTE(2, 8, 9, 10, 11)
DEEPGEMM_PROMOTE(3, 12, 13, 14, 15)
DEEPGEMM_PROMOTE(4, 16, 17, 18, 19)
DEEPGEMM_PROMOTE(5, 20, 21, 22, 23)
DEEPGEMM_PROMOTE(6, 24, 25, 26, 27)
DEEPGEMM_PROMOTE(7, 28, 29, 30, 31)
DEEPGEMM_PROMOTE(8, 32, 33, 34, 35)
DEEPGEMM_PROMOTE(9, 36, 37, 38, 39)
DEEPGEMM_PROMOTE(10, 40, 41, 42, 43)
DEEPGEMM_PROMOTE(11, 44, 45, 46, 47)
DEEPGEMM_PROMOTE(12, 48, 49, 50, 51)
DEEPGEMM_PROMOTE(13, 52, 53, 54, 55)
DEEPGEMM_PROMOTE(14, 56, 57, 58, 59)
DEEPGEMM_PROMOTE(15, 60, 61, 62, 63)
DEEPGEMM_PROMOTE(16, 64, 65, 66, 67)
DEEPGEMM_PROMOTE(17, 68, 69, 70, 71)
DEEPGEMM_PROMOTE(18, 72, 73, 74, 75)
DEEPGEMM_PROMOTE(19, 76, 77, 78, 79)
DEEPGEMM_PROMOTE(20, 80, 81, 82, 83)
DEEPGEMM_PROMOTE(21, 84, 85, 86, 87)
DEEPGEMM_PROMOTE(22, 88, 89, 90, 91)
DEEPGEMM_PROMOTE(23, 92, 93, 94, 95)
DEEPGEMM_PROMOTE(24, 96, 97, 98, 99)
DEEPGEMM_PROMOTE(25, 100, 101, 102, 103)
DEEPGEMM_PROMOTE(26, 104, 105, 106, 107)
DEEPGEMM_PROMOTE(27, 108, 109, 110, 111)
DEEPGEMM_PROMOTE(28, 112, 113, 114, 115)
DEEPGEMM_PROMOTE(29, 116, 117, 118, 119)
DEEPGEMM_PROMOTE(30, 120, 121, 122, 123)
DEEPGEMM_PROMOTE(31, 124, 125, 126, 127)

#undef DEEPGEMM_WGMMA_FP8
#undef DEEPGEMM_WGMMA_ALL_FP8
#undef DEEPGEMM_PROMOTE

}  // namespace deepgemm::device::ptx
