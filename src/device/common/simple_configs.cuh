// Sizes of the general and the quantise kernels, for host and device.
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

// No padding bytes: the object's bytes are its key.
struct QuantizeConfig {
  u16 k_per_scale = 0;  // a constant where it is small, so that indices need no division; else 0
  u8 whole_cta = 0;     // the team is the CTA; else each warp is one
  u8 values_e5m2 = 0;

  static constexpr int threads = 256;
  static constexpr int shared_bytes = threads / 32 * 4;  // one maximum per warp
};
static_assert(sizeof(QuantizeConfig) == 4);

}  // namespace deepgemm::device
