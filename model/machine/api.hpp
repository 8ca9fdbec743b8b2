// What a kernel's ptx/ functions call: the instructions of the modelled machine.
#pragma once

#include <array>
#include <cstdint>
#include <source_location>

namespace sm90 {

using Where = std::source_location;
using Address = std::uint32_t;

// ---- Indices
int thread_index();
int cta_index();
int cta_count();
int cta_threads();
int cluster_rank();

// ---- Warp: every lane must call the same one, from the same line
std::uint64_t shuffle(std::uint64_t value, int source_lane, const Where& where);
void check_same_in_warp(std::uint64_t value, const Where& where);
void warp_together(const char* kind, const Where& where);
std::array<std::uint64_t, 32> warp_gather(const char* kind, std::uint64_t value,
                                          const Where& where);  // every lane's value
std::uint32_t ballot(bool predicate, const Where& where);       // vote.sync.ballot

// ---- Shared memory, generic proxy
Address dynamic_shared();
void read_shared(void* target, Address source, int bytes, const Where& where);
void write_shared(Address target, const void* source, int bytes, const Where& where);
void write_remote_async(Address target, int rank, const void* source, int bytes, Address barrier,
                        const Where& where);
void fence_async_proxy(const Where& where);
// stmatrix and ldmatrix of four 8 x 8 matrices of 16 bits; movmatrix of one, transposed.
void store_matrices(Address row, const std::uint32_t (&values)[4], const Where& where);
std::uint32_t transpose_matrix(std::uint32_t value, const Where& where);
void set_registers(int count, bool raise, const Where& where);

// ---- Barriers
void sync_cta(const Where& where);
void named_barrier(int id, int threads, bool wait, const Where& where);
void cluster_arrive(const Where& where);
void cluster_wait(const Where& where);
void mbarrier_init(Address barrier, int arrivals, const Where& where);
void mbarrier_init_fence(const Where& where);
void mbarrier_arrive(Address barrier, int bytes, const Where& where);
void mbarrier_arrive_remote(Address barrier, int rank, const Where& where);
bool mbarrier_test(Address barrier, std::uint32_t parity, const Where& where);
void mbarrier_wait(Address barrier, std::uint32_t parity, const Where& where);
void wait_for_previous_kernel(const Where& where);

// ---- TMA; `map` is what cuTensorMapEncodeTiled of model/driver wrote
struct Coordinates {
  int values[5];
};
void tma_load(Address target, const void* map, const Coordinates& at, Address barrier,
              unsigned cta_mask, const Where& where);  // mask 0: this CTA
void tma_store(const void* map, const Coordinates& at, Address source, bool add,
               const Where& where);
void tma_commit(const Where& where);
void tma_wait_read(int pending, const Where& where);

// ---- Bulk copies of bytes: into this CTA, counted by its barrier; out of it, in bulk groups
void bulk_load(Address target, const void* source, int bytes, Address barrier, const Where& where);
void bulk_store(void* target, Address source, int bytes, const Where& where);

// ---- WGMMA on partial accumulators: 64 x columns x 32 bytes of K, FP32 sums. MN-major operands
// (the instruction's "transposed") are of 16-bit elements.
enum class Format : int { e4m3, e5m2, bf16, f16 };
// mma.sync.m16n8k16 (16-bit elements) and m16n8k32 (8-bit): sum += A * B of a warp's fragments.
void mma_sync(Format format, float (&sum)[4], const std::uint32_t (&a)[4],
              const std::uint32_t (&b)[2], const Where& where);
void wgmma_fence(const Where& where);
void wgmma(int columns, Format a, Format b, int slot, bool accumulate, std::uint64_t a_descriptor,
           std::uint64_t b_descriptor, bool a_mn_major, bool b_mn_major, const Where& where);
void wgmma_commit(const Where& where);
void wgmma_wait(int pending, const Where& where);
float& partial(int slot, int element, const Where& where);  // to read or to change it

// ---- Global memory, checked against the driver's allocations
float load_global_f32(const float* address, const Where& where);

}  // namespace sm90
