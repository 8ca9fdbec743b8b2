// D[M, N] = (A sfa) (B sfb)^T, of 16-bit operands A B^T, for few tokens: operands swapped (rows of
// B on the 64 rows of WGMMA, tokens on its columns), K split over a cluster, everything resident in
// one wave.
//
// clang-format off
// | who            | does                               | waits on                     | arrives at |
// |----------------|------------------------------------|------------------------------|------------|
// | producer lane  | TMA of B and A                     | empty, after the first round | full       |
// | consumer warps | table of factors, WGMMA, promotion | full                         | empty      |
// | all threads    | cluster barrier: the peers run     | before the first remote store             |
// | consumer warps | fragments to their owners          | sent, before they are read   | sent       |
// clang-format on
//
// One CTA computes `rows()` rows of B over its share of K; nothing is persistent. The producer
// starts the whole ring before anyone else is ready. Under programmatic dependent launch everything
// is read after the previous kernel, for B may be its output; with constant_b the ring's first
// round of B is not.
#pragma once

#include "common/decode_config.cuh"
#include "epilogue/store_swapped.cuh"
#include "mma/multiply.cuh"
#include "pipeline/ring.cuh"
#include "ptx/tma.cuh"
#include "scale/scale_table.cuh"

namespace deepgemm::device {

// Where a CTA works: its rows of B and its stages of K.
struct DecodeShare {
  int rank, first_row, first_stage, stages;
};

template <DecodeConfig C>
DEEPGEMM_DEVICE DecodeShare decode_share(const DecodeParams& p) {
  DecodeShare share;
  share.rank = 0;
  if constexpr (C.cluster_k > 1) share.rank = ptx::cluster_rank();
  share.first_row = ptx::cta_index() / C.cluster_k * C.rows();
  const int all = ceil_div(p.k_blocks, static_cast<int>(C.stage_blocks));
  share.first_stage = all * share.rank / C.cluster_k;
  share.stages = all * (share.rank + 1) / C.cluster_k - share.first_stage;
  return share;
}

template <DecodeConfig C>
struct DecodeRing : Ring<C.stages> {
  u32 shared;
  static constexpr DecodeMap map = decode_map(C);

  DEEPGEMM_DEVICE explicit DecodeRing(u32 base)
      : Ring<C.stages>{base + map.full, base + map.empty}, shared(base) {}
  DEEPGEMM_DEVICE u32 rows() const { return shared + map.ring + this->stage * C.stage_bytes(); }
  DEEPGEMM_DEVICE u32 tokens() const { return rows() + C.stage_blocks * C.row_block_bytes(); }
};

template <DecodeConfig C>
DEEPGEMM_DEVICE void load_rows(const DecodeParams& p, const DecodeRing<C>& ring,
                               const DecodeShare& share, int i) {
  ptx::mbarrier_arm(ring.full(), C.stage_bytes());
  ptx::tma_load_3d(ring.rows(), p.rows, 0, share.first_row,
                   (share.first_stage + i) * C.stage_blocks, ring.full(), p.b_policy);
}
template <DecodeConfig C>
DEEPGEMM_DEVICE void load_tokens(const DecodeParams& p, const DecodeRing<C>& ring,
                                 const DecodeShare& share, int i) {
  ptx::tma_load_3d(ring.tokens(), p.tokens, 0, 0, (share.first_stage + i) * C.stage_blocks,
                   ring.full(), L2Policy::evict_last);
}

// One lane, before the CTA is synchronised: barriers, then the ring's first round.
template <DecodeConfig C>
DEEPGEMM_DEVICE void start_ring(const DecodeParams& p, u32 shared, const DecodeShare& share) {
  DecodeRing<C> ring(shared);
  ring.init(1, C.consumers * warps_per_group);
  const int first_round = min_of(share.stages, static_cast<int>(C.stages));
  if (!p.constant_b) ptx::wait_for_previous_kernel();
  for (int i = 0; i < first_round; ++i, ring.advance()) {
    load_rows<C>(p, ring, share, i);
    if (!p.constant_b) load_tokens<C>(p, ring, share, i);
  }
  if (!p.constant_b) return;
  ptx::wait_for_previous_kernel();
  ring.stage = 0;
  for (int i = 0; i < first_round; ++i, ring.advance()) load_tokens<C>(p, ring, share, i);
}

// The same lane: the rest of the CTA's share.
template <DecodeConfig C>
DEEPGEMM_DEVICE void produce_rest(const DecodeParams& p, u32 shared, const DecodeShare& share,
                                  bool issues) {
  DecodeRing<C> ring(shared);
  ring.phase = 1;  // the first round has filled every stage once
#pragma unroll 1
  for (int i = C.stages; i < share.stages; ++i, ring.advance()) {
    ring.acquire();
    if (issues) {
      load_rows<C>(p, ring, share, i);
      load_tokens<C>(p, ring, share, i);
    }
  }
}

// Consumer warps: this warp has read `stage`.
template <int Stages>
DEEPGEMM_DEVICE void release_stage(const Ring<Stages>& ring, int stage) {
  ptx::sync_warp();
  if (ptx::lane_index() == 0) ptx::mbarrier_arrive(ring.empty_barriers + stage * 8);
}

// One stage: two K blocks in flight, the first promoted while the second is multiplied.
template <DecodeConfig C>
DEEPGEMM_DEVICE void multiply_stage(float* sum, u64 rows, u64 tokens, u32 factors) {
  constexpr int row_step = C.row_block_bytes() >> 4, token_step = C.token_block_bytes() >> 4;
  constexpr int line = C.tokens * 4;
#pragma unroll
  for (int block = 0; block < C.stage_blocks; block += C.slots()) {
    multiply_block<C.tokens, C.b_type, C.a_type, 0>(rows + block * row_step,
                                                    tokens + block * token_step);
    if constexpr (C.slots() == 2) {
      multiply_block<C.tokens, C.b_type, C.a_type, 1>(rows + (block + 1) * row_step,
                                                      tokens + (block + 1) * token_step);
    }
    ptx::wgmma_wait<C.slots() - 1>();
    promote_tokens<C.tokens, 0>(sum, factors + block * line);
    if constexpr (C.slots() == 2) {
      ptx::wgmma_wait<0>();
      promote_tokens<C.tokens, 1>(sum, factors + (block + 1) * line);
    }
  }
}

// 16-bit operands: one block after the other is added to slot 0, a stage in flight while the next
// one's WGMMAs are issued.
template <DecodeConfig C>
DEEPGEMM_DEVICE void accumulate_share(float* sum, u32 shared, const DecodeShare& share, int group) {
  constexpr int row_step = C.row_block_bytes() >> 4, token_step = C.token_block_bytes() >> 4;
  DecodeRing<C> ring(shared);
  const u32 row_offset = group * unit_rows * stage_span;
  int stage = 0;
#pragma unroll 1
  for (int i = 0; i < share.stages; ++i) {
    ring.wait_full();
    const u64 rows = k_major_descriptor(ring.rows() + row_offset);
    const u64 tokens = k_major_descriptor(ring.tokens());
    ptx::wgmma_fence();
#pragma unroll
    for (int block = 0; block < C.stage_blocks; ++block) {
      accumulate_block<C.tokens, C.a_type, 0>(rows + block * row_step, tokens + block * token_step,
                                              block == 0 ? i : 1);
    }
    ptx::wgmma_commit();
    ptx::wgmma_wait<1>();
    if (i > 0) release_stage(ring, stage);
    stage = ring.stage;
    ring.advance();
  }
  ptx::wgmma_wait();
  // No CTA of a cluster is without a stage unless K is shorter than the cluster.
  if (share.stages > 0) read_partial<C.tokens, 0>(sum);
}

template <DecodeConfig C>
DEEPGEMM_DEVICE void consume_share(float* sum, u32 shared, const DecodeShare& share, int group) {
  DecodeRing<C> ring(shared);
  const u32 row_offset = group * unit_rows * stage_span;
  u32 factors = shared + decode_map(C).scales + ptx::lane_index() % 4 * 8;
#pragma unroll 1
  for (int i = 0; i < share.stages; ++i) {
    ring.wait_full();
    multiply_stage<C>(sum, k_major_descriptor(ring.rows() + row_offset),
                      k_major_descriptor(ring.tokens()), factors);
    release_stage(ring, ring.stage);
    ring.advance();
    factors += C.stage_blocks * C.tokens * 4;
  }
}

// Sums over the cluster (or this CTA's buffer) and stores.
template <DecodeConfig C>
DEEPGEMM_DEVICE void store_share(const float* sum, const DecodeParams& p, u32 shared,
                                 const DecodeShare& share, int warp) {
  const int group = warp / warps_per_group, warp_in_group = warp % warps_per_group;
  const int row = share.first_row + group * unit_rows;
  if constexpr (!C.sums_in_shared()) {
#pragma unroll
    for (int j = 0; j < C.tokens / 8; ++j) {
      const float value[4] = {sum[4 * j], sum[4 * j + 1], sum[4 * j + 2], sum[4 * j + 3]};
      store_fragment<C>(p, row + warp_in_group * 16, j * 8, value);
    }
  } else {
    const u32 buffer =
        shared + decode_map(C).reduction + group * (C.reduction_bytes() / C.consumers);
    const u32 sent = shared + decode_map(C).sent;
    if constexpr (C.cluster_k > 1) ptx::cluster_wait();
    send_fragments<C>(sum, buffer, sent, share.rank, warp_in_group);
    if constexpr (C.cluster_k > 1) {
      ptx::mbarrier_wait(sent, 0);
    } else {
      ptx::named_barrier_sync(1 + group, 128);
    }
    store_owned_fragments<C>(p, buffer, share.rank, warp_in_group, row);
  }
}

template <DecodeConfig C>
DEEPGEMM_DEVICE void decode(const DecodeParams& p) {
  static_assert(broken_rule(C) == nullptr, "illegal DecodeConfig");
  const u32 shared = ptx::dynamic_shared();
  const DecodeShare share = decode_share<C>(p);
  const int warp = ptx::warp_index();
  const bool produces = warp == C.consumers * warps_per_group;
  ptx::let_next_kernel_start();
  if (produces) {
    const bool issues = ptx::elect_one();
    if (issues) {
      ptx::prefetch_tensor_map(p.rows);
      ptx::prefetch_tensor_map(p.tokens);
      start_ring<C>(p, shared, share);
    }
    ptx::sync_warp();
    if constexpr (C.cluster_k > 1) {
      expect_fragments<C>(shared + decode_map(C).sent, share.rank);
      ptx::cluster_arrive_relaxed();
    }
    ptx::sync_cta();
    produce_rest<C>(p, shared, share, issues);
    ptx::sync_warp();
    if constexpr (C.cluster_k > 1) ptx::cluster_wait();
    return;
  }
  ptx::wait_for_previous_kernel();
  if constexpr (C.scaled()) {
    fill_scale_table<C>(p, shared + decode_map(C).scales, share.first_stage * C.stage_blocks,
                        share.stages * C.stage_blocks, share.first_row);
  }
  if constexpr (C.cluster_k > 1) ptx::cluster_arrive_relaxed();
  ptx::sync_cta();
  ptx::declare_partials();
  float sum[C.accumulators()] = {};
  if constexpr (C.scaled()) {
    consume_share<C>(sum, shared, share, warp / warps_per_group);
  } else {
    accumulate_share<C>(sum, shared, share, warp / warps_per_group);
  }
  store_share<C>(sum, p, shared, share, warp);
}

}  // namespace deepgemm::device
