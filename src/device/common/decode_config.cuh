// How the decode kernel computes: few tokens (rows of A), so that the product is a read of B.
#pragma once

#include "common/elements.cuh"
#include "common/gemm_config.cuh"
#include "common/gemm_params.cuh"
#include "common/l2_policy.cuh"
#include "common/types.cuh"

namespace deepgemm::device {

// No padding bytes: the object's bytes are its key.
struct DecodeConfig {
  u8 tokens = 8;        // columns of WGMMA: M rounded up to 8, 16, 32, 64 or 128
  u8 consumers = 1;     // warpgroups, each with 64 rows of B
  u8 stage_blocks = 2;  // K blocks of a stage
  u8 stages = 4;
  u8 cluster_k = 1;  // CTAs of a cluster, each with a share of K
  u8 ctas_per_sm = 2;
  ElementType a_type = ElementType::e4m3, b_type = ElementType::e4m3;
  ElementType out_type = ElementType::bf16;  // with the general epilogue: f32, known at run time
  u8 general_epilogue = 0;
  u8 reserved[2] = {0, 0};

  // 16-bit operands have no scale factors, and one sum over all of K.
  DEEPGEMM_SHARED_CODE constexpr bool scaled() const { return bytes_of(a_type) == 1; }
  // K of a block: 128 bytes.
  DEEPGEMM_SHARED_CODE constexpr int block_elements() const {
    return stage_span / bytes_of(a_type);
  }
  DEEPGEMM_SHARED_CODE constexpr int threads() const { return consumers * 128 + 32; }
  DEEPGEMM_SHARED_CODE constexpr int rows() const { return consumers * unit_rows; }  // of B
  DEEPGEMM_SHARED_CODE constexpr int row_block_bytes() const { return rows() * stage_span; }
  DEEPGEMM_SHARED_CODE constexpr int token_block_bytes() const { return tokens * stage_span; }
  DEEPGEMM_SHARED_CODE constexpr int stage_bytes() const {
    return stage_blocks * (row_block_bytes() + token_block_bytes());
  }
  // WGMMA groups with partial sums that are in flight together: two, in two slots, where a stage
  // has two blocks.
  DEEPGEMM_SHARED_CODE constexpr int slots() const {
    return scaled() && stage_blocks % 2 == 0 ? 2 : 1;
  }
  DEEPGEMM_SHARED_CODE constexpr int accumulators() const { return tokens / 2; }
  // A fragment is what one warp holds for 8 tokens: 32 lanes of 4 sums. The CTAs of a cluster
  // divide a warpgroup's fragments among them and sum what they own.
  DEEPGEMM_SHARED_CODE constexpr int fragments() const { return warps_per_group * tokens / 8; }
  DEEPGEMM_SHARED_CODE constexpr int owned_fragments() const {
    return fragments() < cluster_k ? 1 : fragments() / cluster_k;
  }
  DEEPGEMM_SHARED_CODE constexpr bool sums_in_shared() const {
    return cluster_k > 1 || general_epilogue;
  }
  DEEPGEMM_SHARED_CODE constexpr int reduction_bytes() const {
    return sums_in_shared() ? consumers * cluster_k * owned_fragments() * 512 : 0;
  }
};

struct DecodeMap {
  int ring, reduction, full, empty, sent, scales, fixed;
};
DEEPGEMM_SHARED_CODE constexpr DecodeMap decode_map(const DecodeConfig& c) {
  DecodeMap map{};
  map.ring = 0;
  map.reduction = map.ring + c.stages * c.stage_bytes();
  map.full = map.reduction + c.reduction_bytes();
  map.empty = map.full + c.stages * 8;
  map.sent = map.empty + c.stages * 8;
  map.scales = (map.sent + (c.cluster_k > 1 ? 8 : 0) + 15) / 16 * 16;
  map.fixed = map.scales;
  return map;
}
// K blocks that the CTA with the largest share has, in whole stages.
DEEPGEMM_SHARED_CODE constexpr i64 largest_share(const DecodeConfig& c, i64 k_blocks) {
  return ceil_div(ceil_div(k_blocks, static_cast<i64>(c.stage_blocks)),
                  static_cast<i64>(c.cluster_k)) *
         c.stage_blocks;
}
// Dynamic shared memory: the table of factors, the only part that grows with K, comes last.
DEEPGEMM_SHARED_CODE constexpr i64 decode_shared_bytes(const DecodeConfig& c, i64 k_blocks) {
  return decode_map(c).fixed + (c.scaled() ? largest_share(c, k_blocks) * c.tokens * 4 : 0);
}

inline constexpr int shared_bytes_per_sm = 233472;  // 228 KB, of which each CTA reserves 1 KB

// nullptr if legal, else the broken rule.
DEEPGEMM_SHARED_CODE constexpr const char* broken_rule(const DecodeConfig& c) {
  if (c.tokens != 8 && c.tokens != 16 && c.tokens != 32 && c.tokens != 64 && c.tokens != 128)
    return "tokens must be 8, 16, 32, 64 or 128";
  if (c.consumers < 1 || c.consumers > 2)
    return "consumers must be 1 or 2 (one scale block of 128 rows of B per CTA)";
  if (c.stage_blocks != 1 && c.stage_blocks != 2 && c.stage_blocks != 4)
    return "stage_blocks must be 1, 2 or 4";
  if (c.cluster_k != 1 && c.cluster_k != 2 && c.cluster_k != 4 && c.cluster_k != 8)
    return "cluster_k must be 1, 2, 4 or 8";
  if (c.scaled() ? bytes_of(c.b_type) != 1 : c.b_type != c.a_type || bytes_of(c.a_type) != 2)
    return "a and b are both FP8, or have the same 16-bit type";
  if (c.stages < 1) return "stages must be at least 1";
  // A stage of theirs is given back only when the next one has been waited for.
  if (!c.scaled() && c.stages < 2) return "16-bit operands need at least 2 stages";
  if (c.ctas_per_sm < 1) return "ctas_per_sm must be at least 1";
  if (bytes_of(c.out_type) == 1) return "FP8 output needs the general epilogue";
  if (c.general_epilogue && c.out_type != ElementType::f32)
    return "the general epilogue takes its output type at run time: out_type must be f32";
  // Sums and slots, and 40 for addresses, scales and the loop; the general epilogue takes more (64
  // tokens with three CTAs on an SM spilled 12 bytes under NVRTC 13.0).
  const int registers =
      c.accumulators() * (1 + (c.scaled() ? c.slots() : 0)) + 40 + (c.general_epilogue ? 8 : 0);
  if (registers * c.threads() * c.ctas_per_sm > 65536 || registers > 255)
    return "accumulators exceed the register budget";
  if (c.ctas_per_sm * (decode_map(c).fixed + 1024) > shared_bytes_per_sm)
    return "shared memory exceeds 228 KB per SM";
  return nullptr;
}

struct DecodeParams {
  TensorMap rows;    // B as [k block][row][block_elements()]
  TensorMap tokens;  // A likewise
  const float* sfa;  // strides in elements
  i64 sfa_row, sfa_k;
  const float* sfb;
  i64 sfb_row, sfb_k;
  void* out;
  i64 out_row, out_column;
  EpilogueParams epilogue;
  L2Policy b_policy = L2Policy::evict_first;
  i32 m, n, k_blocks;
  i32 constant_b;  // B may be read before the previous kernel is complete
};

static_assert(sizeof(DecodeConfig) == 12, "DecodeConfig must have no padding");

}  // namespace deepgemm::device
