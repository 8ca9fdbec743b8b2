// Sizes and configs of the general kernels, the quantisers and the scale layouts, for host and
// device.
#pragma once

#include "common/types.cuh"

namespace deepgemm::device {

struct GeneralConfig {
  static constexpr int tile = 64, panel_k = 32, threads = 256, per_thread = 4;
  static constexpr int pitch = tile + 4;  // floats; keeps float4 reads free of bank conflicts
  static constexpr int panel_bytes = panel_k * pitch * 4;
  static constexpr int shared_bytes = 2 * panel_bytes;
};
// The epilogue passes the 16 sums of each thread through the panels.
static_assert(GeneralConfig::shared_bytes >= 16 * GeneralConfig::threads * 4);

// What a CTA of the general grouped kernel walks.
enum class GroupSchedule : u8 { rows, labels, k };

// No padding bytes, here and below: the object's bytes are its key.
struct GeneralGroupedConfig {
  GroupSchedule schedule = GroupSchedule::rows;

  static constexpr int band = 8;  // row tiles side by side: they share b in L2
  // Why a bound: left alone, NVRTC 13.0 aims at three CTAs and spills for it.
  static constexpr int ctas_per_sm = 2;
};
static_assert(sizeof(GeneralGroupedConfig) == 1);

struct QuantizeConfig {
  u16 k_per_scale = 0;  // a constant where it is small, so that indices need no division; else 0
  u8 whole_cta = 0;     // the team is the CTA; else each warp is one
  u8 values_e5m2 = 0;

  static constexpr int threads = 256;
  static constexpr int shared_bytes = threads / 32 * 4;  // one maximum per warp
};
static_assert(sizeof(QuantizeConfig) == 4);

// What the kernel of scale layouts makes of words of 4 bytes. "groups" are those along K; pack
// knows groups of rows.
enum class ScaleWork : i32 { copy, pack, pack_groups, unpack, unpack_groups };

// A CTA's tile of factors passes through shared memory, so that neighbouring threads take
// neighbours in memory on both sides.
struct ScaleLayoutConfig {
  static constexpr int threads = 256, rows = 64, factors = 32, per_word = 4;
  static constexpr int pitch = rows + 1;  // words; no bank conflict in either direction
  // In words: the tile; where each factor lies; whether each row is a group's.
  static constexpr int sources = factors * pitch, owned = sources + factors;
  static constexpr int shared_bytes = (owned + rows) * 4;
};

}  // namespace deepgemm::device
