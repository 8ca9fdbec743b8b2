// WGMMA on partial accumulators that live in named PTX registers.
// Why named registers and not "+f" operands: the compiler then sees no loop-carried values that
// WGMMA writes, so that it neither copies accumulators nor serialises the instruction (ptxas
// C7514), and a wide instruction needs no list of 64 operands.
#pragma once

#include "common/gemm_config.cuh"
#include "common/types.cuh"

namespace deepgemm::device::ptx {

// Once per kernel, before the first wgmma. Two partial accumulators ("slots"), so that one can be
// promoted while the other is written. Only registers that are used take room.
DEEPGEMM_DEVICE void declare_partials() { asm volatile(".reg .f32 first<128>, second<128>;"); }

// wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned N;
// (PTX ISA 9.7.15.7; sm_90a)
DEEPGEMM_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEEPGEMM_DEVICE void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Until at most `Pending` of the latest groups are in flight.
template <int Pending = 0>
DEEPGEMM_DEVICE void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

// mul.rn.f32, kept where it is written: in the shadow of a WGMMA, not sunk to its use behind the
// wait.
DEEPGEMM_DEVICE float multiply_here(float a, float b) {
  float product;
  asm volatile("mul.rn.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
  return product;
}

// Operand lists of slot `s`: four registers for each 8 columns.
#define DEEPGEMM_SLOT_8(s) s "0, " s "1, " s "2, " s "3"
#define DEEPGEMM_SLOT_16(s) DEEPGEMM_SLOT_8(s) ", " s "4, " s "5, " s "6, " s "7"
#define DEEPGEMM_SLOT_24(s) DEEPGEMM_SLOT_16(s) ", " s "8, " s "9, " s "10, " s "11"
#define DEEPGEMM_SLOT_32(s) DEEPGEMM_SLOT_24(s) ", " s "12, " s "13, " s "14, " s "15"
#define DEEPGEMM_SLOT_40(s) DEEPGEMM_SLOT_32(s) ", " s "16, " s "17, " s "18, " s "19"
#define DEEPGEMM_SLOT_48(s) DEEPGEMM_SLOT_40(s) ", " s "20, " s "21, " s "22, " s "23"
#define DEEPGEMM_SLOT_56(s) DEEPGEMM_SLOT_48(s) ", " s "24, " s "25, " s "26, " s "27"
#define DEEPGEMM_SLOT_64(s) DEEPGEMM_SLOT_56(s) ", " s "28, " s "29, " s "30, " s "31"
#define DEEPGEMM_SLOT_72(s) DEEPGEMM_SLOT_64(s) ", " s "32, " s "33, " s "34, " s "35"
#define DEEPGEMM_SLOT_80(s) DEEPGEMM_SLOT_72(s) ", " s "36, " s "37, " s "38, " s "39"
#define DEEPGEMM_SLOT_88(s) DEEPGEMM_SLOT_80(s) ", " s "40, " s "41, " s "42, " s "43"
#define DEEPGEMM_SLOT_96(s) DEEPGEMM_SLOT_88(s) ", " s "44, " s "45, " s "46, " s "47"
#define DEEPGEMM_SLOT_104(s) DEEPGEMM_SLOT_96(s) ", " s "48, " s "49, " s "50, " s "51"
#define DEEPGEMM_SLOT_112(s) DEEPGEMM_SLOT_104(s) ", " s "52, " s "53, " s "54, " s "55"
#define DEEPGEMM_SLOT_120(s) DEEPGEMM_SLOT_112(s) ", " s "56, " s "57, " s "58, " s "59"
#define DEEPGEMM_SLOT_128(s) DEEPGEMM_SLOT_120(s) ", " s "60, " s "61, " s "62, " s "63"
#define DEEPGEMM_SLOT_136(s) DEEPGEMM_SLOT_128(s) ", " s "64, " s "65, " s "66, " s "67"
#define DEEPGEMM_SLOT_144(s) DEEPGEMM_SLOT_136(s) ", " s "68, " s "69, " s "70, " s "71"
#define DEEPGEMM_SLOT_152(s) DEEPGEMM_SLOT_144(s) ", " s "72, " s "73, " s "74, " s "75"
#define DEEPGEMM_SLOT_160(s) DEEPGEMM_SLOT_152(s) ", " s "76, " s "77, " s "78, " s "79"
#define DEEPGEMM_SLOT_168(s) DEEPGEMM_SLOT_160(s) ", " s "80, " s "81, " s "82, " s "83"
#define DEEPGEMM_SLOT_176(s) DEEPGEMM_SLOT_168(s) ", " s "84, " s "85, " s "86, " s "87"
#define DEEPGEMM_SLOT_184(s) DEEPGEMM_SLOT_176(s) ", " s "88, " s "89, " s "90, " s "91"
#define DEEPGEMM_SLOT_192(s) DEEPGEMM_SLOT_184(s) ", " s "92, " s "93, " s "94, " s "95"
#define DEEPGEMM_SLOT_200(s) DEEPGEMM_SLOT_192(s) ", " s "96, " s "97, " s "98, " s "99"
#define DEEPGEMM_SLOT_208(s) DEEPGEMM_SLOT_200(s) ", " s "100, " s "101, " s "102, " s "103"
#define DEEPGEMM_SLOT_216(s) DEEPGEMM_SLOT_208(s) ", " s "104, " s "105, " s "106, " s "107"
#define DEEPGEMM_SLOT_224(s) DEEPGEMM_SLOT_216(s) ", " s "108, " s "109, " s "110, " s "111"
#define DEEPGEMM_SLOT_232(s) DEEPGEMM_SLOT_224(s) ", " s "112, " s "113, " s "114, " s "115"
#define DEEPGEMM_SLOT_240(s) DEEPGEMM_SLOT_232(s) ", " s "116, " s "117, " s "118, " s "119"
#define DEEPGEMM_SLOT_248(s) DEEPGEMM_SLOT_240(s) ", " s "120, " s "121, " s "122, " s "123"
#define DEEPGEMM_SLOT_256(s) DEEPGEMM_SLOT_248(s) ", " s "124, " s "125, " s "126, " s "127"

// wgmma.mma_async.sync.aligned.m64nNk32.f32.TA.TB d, a-desc, b-desc, scale-d, 1, 1;
// (PTX ISA 9.7.15.5; sm_90a) slot (+)= A[64, 32] * B[N, 32]^T; TA, TB in e4m3, e5m2.
template <int Columns, ElementType TypeA, ElementType TypeB, int Slot>
struct Wgmma;

#define DEEPGEMM_WGMMA_FP8(columns, type_a, type_b, slot, registers)                   \
  template <>                                                                          \
  struct Wgmma<columns, ElementType::type_a, ElementType::type_b, slot> {              \
    template <int Accumulate>                                                          \
    static DEEPGEMM_DEVICE void multiply(u64 a, u64 b) {                               \
      asm volatile(                                                                    \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n"                                  \
          "wgmma.mma_async.sync.aligned.m64n" #columns "k32.f32." #type_a "." #type_b  \
          " {" DEEPGEMM_SLOT_##columns(registers) "}, %0, %1, p, 1, 1;\n}\n" ::"l"(a), \
          "l"(b), "n"(Accumulate));                                                    \
    }                                                                                  \
  };
#define DEEPGEMM_WGMMA_ALL_FP8(columns, slot, registers)   \
  DEEPGEMM_WGMMA_FP8(columns, e4m3, e4m3, slot, registers) \
  DEEPGEMM_WGMMA_FP8(columns, e4m3, e5m2, slot, registers) \
  DEEPGEMM_WGMMA_FP8(columns, e5m2, e4m3, slot, registers) \
  DEEPGEMM_WGMMA_FP8(columns, e5m2, e5m2, slot, registers)

DEEPGEMM_WGMMA_ALL_FP8(8, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(16, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(32, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(48, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(64, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(80, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(96, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(112, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(128, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(144, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(160, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(176, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(192, 0, "first")
DEEPGEMM_WGMMA_ALL_FP8(8, 1, "second")
DEEPGEMM_WGMMA_ALL_FP8(16, 1, "second")
DEEPGEMM_WGMMA_ALL_FP8(32, 1, "second")
DEEPGEMM_WGMMA_ALL_FP8(64, 1, "second")
DEEPGEMM_WGMMA_ALL_FP8(128, 1, "second")

// wgmma.mma_async.sync.aligned.m64nNk16.f32.T.T d, a-desc, b-desc, scale-d, 1, 1, tnspA, tnspB;
// (PTX ISA 9.7.15.5; sm_90a) slot = A[64, 16] * B[N, 16]^T, added to what it holds if `adds` is not
// 0; T is bf16 or f16. An operand that is MN-major lies in shared memory as [K, rows].
#define DEEPGEMM_WGMMA_16BIT(columns, type, slot, registers)                                   \
  template <>                                                                                  \
  struct Wgmma<columns, ElementType::type, ElementType::type, slot> {                          \
    template <int MnMajorA, int MnMajorB>                                                      \
    static DEEPGEMM_DEVICE void accumulate(u64 a, u64 b, i32 adds) {                           \
      asm volatile(                                                                            \
          "{\n.reg .pred p;\nsetp.ne.b32 p, %2, 0;\n"                                          \
          "wgmma.mma_async.sync.aligned.m64n" #columns "k16.f32." #type "." #type              \
          " {" DEEPGEMM_SLOT_##columns(registers) "}, %0, %1, p, 1, 1, %3, %4;\n}\n" ::"l"(a), \
          "l"(b), "r"(adds), "n"(MnMajorA), "n"(MnMajorB));                                    \
    }                                                                                          \
  };
#define DEEPGEMM_WGMMA_ALL_16BIT(columns, slot, registers) \
  DEEPGEMM_WGMMA_16BIT(columns, bf16, slot, registers)     \
  DEEPGEMM_WGMMA_16BIT(columns, f16, slot, registers)

DEEPGEMM_WGMMA_ALL_16BIT(8, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(16, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(32, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(48, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(64, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(80, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(96, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(112, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(128, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(144, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(160, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(176, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(192, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(208, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(224, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(240, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(256, 0, "first")
DEEPGEMM_WGMMA_ALL_16BIT(8, 1, "second")
DEEPGEMM_WGMMA_ALL_16BIT(16, 1, "second")
DEEPGEMM_WGMMA_ALL_16BIT(32, 1, "second")
DEEPGEMM_WGMMA_ALL_16BIT(48, 1, "second")
DEEPGEMM_WGMMA_ALL_16BIT(64, 1, "second")
DEEPGEMM_WGMMA_ALL_16BIT(80, 1, "second")
DEEPGEMM_WGMMA_ALL_16BIT(96, 1, "second")
DEEPGEMM_WGMMA_ALL_16BIT(112, 1, "second")
DEEPGEMM_WGMMA_ALL_16BIT(128, 1, "second")

// sum[4 g + i] += scale_i * slot[4 g + i], where g counts groups of 8 columns: elements 0 and 1 lie
// in row lane / 4, elements 2 and 3 eight rows below; 0 and 2 in column lane % 4 * 2, 1 and 3
// beside.
template <int Group, int Slot>
struct Promote;

#define DEEPGEMM_PROMOTE_SLOT(group, r0, r1, r2, r3, slot, registers)                       \
  template <>                                                                               \
  struct Promote<group, slot> {                                                             \
    static DEEPGEMM_DEVICE void apply(float* sum, float s0, float s1, float s2, float s3) { \
      asm volatile("fma.rn.f32 %0, %1, " registers #r0 ", %0;" : "+f"(sum[r0]) : "f"(s0));  \
      asm volatile("fma.rn.f32 %0, %1, " registers #r1 ", %0;" : "+f"(sum[r1]) : "f"(s1));  \
      asm volatile("fma.rn.f32 %0, %1, " registers #r2 ", %0;" : "+f"(sum[r2]) : "f"(s2));  \
      asm volatile("fma.rn.f32 %0, %1, " registers #r3 ", %0;" : "+f"(sum[r3]) : "f"(s3));  \
    }                                                                                       \
  };
// read: sum[4 g + i] = slot[4 g + i], of the same elements. add: slot[4 g + i] += x_i.
template <int Group, int Slot>
struct Partial;

#define DEEPGEMM_PARTIAL_SLOT(group, r0, r1, r2, r3, slot, registers)              \
  template <>                                                                      \
  struct Partial<group, slot> {                                                    \
    static DEEPGEMM_DEVICE void read(float* sum) {                                 \
      asm volatile("mov.f32 %0, " registers #r0 ";" : "=f"(sum[r0]));              \
      asm volatile("mov.f32 %0, " registers #r1 ";" : "=f"(sum[r1]));              \
      asm volatile("mov.f32 %0, " registers #r2 ";" : "=f"(sum[r2]));              \
      asm volatile("mov.f32 %0, " registers #r3 ";" : "=f"(sum[r3]));              \
    }                                                                              \
    static DEEPGEMM_DEVICE void add(float x0, float x1, float x2, float x3) {      \
      asm volatile("add.f32 " registers #r0 ", " registers #r0 ", %0;" ::"f"(x0)); \
      asm volatile("add.f32 " registers #r1 ", " registers #r1 ", %0;" ::"f"(x1)); \
      asm volatile("add.f32 " registers #r2 ", " registers #r2 ", %0;" ::"f"(x2)); \
      asm volatile("add.f32 " registers #r3 ", " registers #r3 ", %0;" ::"f"(x3)); \
    }                                                                              \
  };

#define DEEPGEMM_GROUP(group, r0, r1, r2, r3)               \
  DEEPGEMM_PROMOTE_SLOT(group, r0, r1, r2, r3, 0, "first")  \
  DEEPGEMM_PROMOTE_SLOT(group, r0, r1, r2, r3, 1, "second") \
  DEEPGEMM_PARTIAL_SLOT(group, r0, r1, r2, r3, 0, "first")  \
  DEEPGEMM_PARTIAL_SLOT(group, r0, r1, r2, r3, 1, "second")

DEEPGEMM_GROUP(0, 0, 1, 2, 3)
DEEPGEMM_GROUP(1, 4, 5, 6, 7)
DEEPGEMM_GROUP(2, 8, 9, 10, 11)
DEEPGEMM_GROUP(3, 12, 13, 14, 15)
DEEPGEMM_GROUP(4, 16, 17, 18, 19)
DEEPGEMM_GROUP(5, 20, 21, 22, 23)
DEEPGEMM_GROUP(6, 24, 25, 26, 27)
DEEPGEMM_GROUP(7, 28, 29, 30, 31)
DEEPGEMM_GROUP(8, 32, 33, 34, 35)
DEEPGEMM_GROUP(9, 36, 37, 38, 39)
DEEPGEMM_GROUP(10, 40, 41, 42, 43)
DEEPGEMM_GROUP(11, 44, 45, 46, 47)
DEEPGEMM_GROUP(12, 48, 49, 50, 51)
DEEPGEMM_GROUP(13, 52, 53, 54, 55)
DEEPGEMM_GROUP(14, 56, 57, 58, 59)
DEEPGEMM_GROUP(15, 60, 61, 62, 63)
DEEPGEMM_GROUP(16, 64, 65, 66, 67)
DEEPGEMM_GROUP(17, 68, 69, 70, 71)
DEEPGEMM_GROUP(18, 72, 73, 74, 75)
DEEPGEMM_GROUP(19, 76, 77, 78, 79)
DEEPGEMM_GROUP(20, 80, 81, 82, 83)
DEEPGEMM_GROUP(21, 84, 85, 86, 87)
DEEPGEMM_GROUP(22, 88, 89, 90, 91)
DEEPGEMM_GROUP(23, 92, 93, 94, 95)
DEEPGEMM_GROUP(24, 96, 97, 98, 99)
DEEPGEMM_GROUP(25, 100, 101, 102, 103)
DEEPGEMM_GROUP(26, 104, 105, 106, 107)
DEEPGEMM_GROUP(27, 108, 109, 110, 111)
DEEPGEMM_GROUP(28, 112, 113, 114, 115)
DEEPGEMM_GROUP(29, 116, 117, 118, 119)
DEEPGEMM_GROUP(30, 120, 121, 122, 123)
DEEPGEMM_GROUP(31, 124, 125, 126, 127)

#undef DEEPGEMM_WGMMA_FP8
#undef DEEPGEMM_WGMMA_ALL_FP8
#undef DEEPGEMM_WGMMA_16BIT
#undef DEEPGEMM_WGMMA_ALL_16BIT
#undef DEEPGEMM_GROUP
#undef DEEPGEMM_PROMOTE_SLOT
#undef DEEPGEMM_PARTIAL_SLOT

}  // namespace deepgemm::device::ptx
