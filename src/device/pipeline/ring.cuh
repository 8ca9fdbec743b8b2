// The ring of stages between the producer warps and the consumer warpgroups.
//
// | barrier  | arrivals per phase                                    | waited on by            |
// |----------|-------------------------------------------------------|-------------------------|
// | full[s]  | TMA lane (arms it with the bytes that TMA brings; a   | every consumer warp     |
// |          | group without K, or a CTA without a tile, brings      |                         |
// |          | none), header warp, and the factor warps              |                         |
// | empty[s] | one per consumer warp of every CTA that this CTA's    | every producer warp but |
// |          | multicasts write into, itself included                | the schedule warp       |
//
// The uses of a tile: its K blocks, then with Epilogue::accumulate the blocks of its C, which have
// no header and no factors.
//
// A stage's n-th use is phase n & 1. Producers start one phase ahead: a fresh barrier passes a wait
// for parity 1.
#pragma once

#include "common/gemm_config.cuh"
#include "ptx/barrier.cuh"

namespace deepgemm::device {

template <int Stages>
struct Ring {
  u32 full_barriers, empty_barriers;  // shared addresses, 8 bytes per stage
  int stage = 0;
  u32 phase = 0;

  DEEPGEMM_DEVICE u32 full() const { return full_barriers + stage * 8; }
  DEEPGEMM_DEVICE u32 empty() const { return empty_barriers + stage * 8; }
  DEEPGEMM_DEVICE void advance() {
    if (++stage == Stages) {
      stage = 0;
      phase ^= 1;
    }
  }
  // Producer: until every reader of the stage's last use is done.
  DEEPGEMM_DEVICE void acquire() const { ptx::mbarrier_wait(empty(), phase ^ 1); }
  // Consumer: until everything of this use has arrived.
  DEEPGEMM_DEVICE void wait_full() const { ptx::mbarrier_wait(full(), phase); }

  // One thread of the CTA, before anyone uses the ring. Why not a lane for each stage: barriers
  // need uniform addresses, so that the lanes would go one by one (0.3 us).
  DEEPGEMM_DEVICE void init(int full_arrivals, int empty_arrivals) const {
    for (int s = 0; s < Stages; ++s) {
      ptx::mbarrier_init(full_barriers + s * 8, full_arrivals);
      ptx::mbarrier_init(empty_barriers + s * 8, empty_arrivals);
    }
    ptx::mbarrier_init_fence();
  }
};

// The ring of the persistent kernel, with the places of a stage's parts.
template <GemmConfig C>
struct GemmRing : Ring<C.stages> {
  u32 shared;  // base of the CTA's shared memory

  static constexpr SharedMap map = shared_map(C);

  DEEPGEMM_DEVICE explicit GemmRing(u32 base)
      : Ring<C.stages>{base + map.full, base + map.empty}, shared(base) {}

  DEEPGEMM_DEVICE u32 a() const { return shared + map.a + this->stage * C.a_bytes(); }
  DEEPGEMM_DEVICE u32 b() const { return shared + map.b + this->stage * C.b_bytes(); }
  // Chunk `i` of a block of C.
  DEEPGEMM_DEVICE u32 c(int i) const {
    return i < C.c_chunks_in_a() ? a() + i * C.chunk_bytes()
                                 : b() + (i - C.c_chunks_in_a()) * C.chunk_bytes();
  }
  DEEPGEMM_DEVICE u32 sfa() const { return shared + map.sfa + this->stage * C.sfa_bytes(); }
  DEEPGEMM_DEVICE u32 sfb() const { return shared + map.sfb + this->stage * C.sfb_bytes(); }
  DEEPGEMM_DEVICE u32 header() const {
    return shared + map.header + this->stage * static_cast<int>(sizeof(StageHeader));
  }
};

// Consumer warps: this warp has read `stage`; tell every CTA that writes into it. `writer` is the
// rank that this lane tells, or -1.
template <GemmConfig C>
DEEPGEMM_DEVICE void release(const GemmRing<C>& ring, int stage, int writer) {
  const u32 empty = ring.empty_barriers + stage * 8;
  ptx::sync_warp();
  if constexpr (C.multicast() == 1) {
    if (writer >= 0) ptx::mbarrier_arrive(empty);
  } else {
    if (writer >= 0) ptx::mbarrier_arrive_remote(empty, writer);
  }
}

// With at most two CTAs that share operands, each writes into every ring of the two.
template <GemmConfig C>
DEEPGEMM_DEVICE int writer_of_lane() {
  static_assert(C.multicast() == C.ring_writers());
  const int lane = ptx::lane_index();
  return lane < C.ring_writers() ? lane : -1;
}

}  // namespace deepgemm::device
