// The bounded set of configs: tiles measured to win somewhere, crossed with what a problem demands.
#include "core/text.hpp"
#include "heuristics/gemm_heuristics.hpp"

namespace deepgemm::heuristics {
namespace {

using device::ElementType;
using device::Epilogue;
using device::GemmConfig;
using device::Schedule;

// `splits_d`: D leaves in smaller parts than usual_store(), for the sake of `stages`.
struct Shape {
  std::uint16_t tile_m, tile_n;
  std::uint8_t consumers, consumers_n, stages, cluster_m, cluster_n, cluster_k, ordered;
  bool splits_d = false;
};

// Stages: as many as fit beside D. Measured on an H200 (docs/performance.md): clusters that share
// an operand by multicast won nowhere.
// clang-format off
constexpr Shape fast_shapes[] = {
    {256, 128, 2, 1, 3, 1, 1, 1, 1},  // K >= 4096: fewest bytes per FLOP, warpgroups out of phase
    {256, 128, 2, 1, 3, 1, 1, 1, 0},  // K around 2048
    {128, 192, 2, 1, 4, 1, 1, 1, 0},  // short K, large N
    {192, 128, 3, 1, 4, 1, 1, 1, 0, true},  // few waves
    {192, 96, 3, 1, 5, 1, 1, 1, 0},         // about one wave
    {128, 128, 2, 1, 5, 1, 1, 1, 0},  // few tiles; factors per column
    {128, 64, 2, 1, 6, 1, 1, 1, 0},
    {64, 128, 1, 1, 8, 1, 1, 1, 0},   // M <= 128
    {64, 64, 1, 1, 12, 1, 1, 1, 0},
    {64, 32, 1, 1, 16, 1, 1, 1, 0},
    {64, 64, 1, 1, 11, 1, 1, 2, 0},   // fewer tiles than SMs: K split over a cluster
    {64, 64, 1, 1, 9, 1, 1, 4, 0},
    {64, 32, 1, 1, 16, 1, 1, 2, 0},
};
// The same, for factors of B per 128 columns only: where others leave SMs idle (192x7168x16384: 54.0
// -> 43.7 us).
constexpr Shape more_fast_shapes[] = {
    {192, 64, 3, 1, 6, 1, 1, 1, 0},
    {128, 96, 2, 1, 7, 1, 1, 1, 0},
    {64, 96, 1, 1, 10, 1, 1, 1, 0},
};
// For groups of E4M3, whose sizes are known on the device only: of rows, and of K.
constexpr Shape row_group_shapes[] = {
    {128, 256, 2, 2, 3, 1, 1, 1, 1},        // long groups
    {256, 128, 2, 1, 4, 1, 1, 1, 1, true},  // groups of one tile: more of B in flight
    {128, 128, 2, 1, 5, 1, 1, 1, 0},
    {64, 128, 1, 1, 8, 1, 1, 1, 0},
    {64, 96, 1, 1, 9, 1, 1, 1, 0},
    {64, 64, 1, 1, 12, 1, 1, 1, 0},
    {64, 32, 1, 1, 16, 1, 1, 1, 0},
};
constexpr Shape k_grouped_shapes[] = {
    {192, 96, 3, 1, 5, 1, 1, 1, 0},
    {128, 128, 2, 1, 5, 1, 1, 1, 0},
    {64, 64, 1, 1, 12, 1, 1, 1, 0},
};
// For BF16 and FP16, in the usual layouts, with out of their own type or FP32.
constexpr Shape fast_shapes_16bit[] = {
    {256, 128, 2, 1, 4, 1, 1, 1, 0},
    {128, 256, 2, 1, 3, 1, 1, 1, 0},
    {192, 176, 3, 1, 3, 1, 1, 1, 0},
    {128, 176, 2, 1, 4, 1, 1, 1, 0},
    {128, 192, 2, 1, 4, 1, 1, 1, 0},
    {192, 128, 3, 1, 4, 1, 1, 1, 0},
    {192, 96, 3, 1, 5, 1, 1, 1, 0, true},
    {128, 144, 2, 1, 5, 1, 1, 1, 0},
    {128, 128, 2, 1, 6, 1, 1, 1, 0},
    {128, 64, 2, 1, 8, 1, 1, 1, 0},
    {64, 128, 1, 1, 8, 1, 1, 1, 0},
    {64, 64, 1, 1, 12, 1, 1, 1, 0},
    {64, 32, 1, 1, 16, 1, 1, 1, 0},
    {64, 64, 1, 1, 11, 1, 1, 2, 0},
    {64, 64, 1, 1, 9, 1, 1, 4, 0},
};
constexpr Shape group_shapes_16bit[] = {
    {256, 128, 2, 1, 4, 1, 1, 1, 0},
    {128, 256, 2, 1, 3, 1, 1, 1, 0},
    {128, 128, 2, 1, 6, 1, 1, 1, 0},
    {64, 64, 1, 1, 12, 1, 1, 1, 0},
};
// Of rows only: along K it has not been swept.
constexpr Shape more_row_group_shapes_16bit[] = {{64, 128, 1, 1, 8, 1, 1, 1, 0}};
constexpr Shape general_shapes_16bit[] = {
    {256, 128, 2, 1, 4, 1, 1, 1, 0},
    {128, 128, 2, 1, 5, 1, 1, 1, 0},
    {64, 64, 1, 1, 10, 1, 1, 1, 0},
};
// For everything beside E4M3 with M-contiguous sfa and a plain epilogue.
constexpr Shape general_shapes[] = {
    {256, 128, 2, 1, 3, 1, 1, 1, 1},
    {128, 128, 2, 1, 4, 1, 1, 1, 0},
    {64, 64, 1, 1, 8, 1, 1, 1, 0},
};
// clang-format on

GemmConfig make_config(const Shape& s, const GemmRequest& request) {
  GemmConfig config;
  config.tile_m = s.tile_m;
  config.tile_n = s.tile_n;
  config.consumers = s.consumers;
  config.consumers_n = s.consumers_n;
  config.stages = s.stages;
  config.cluster_m = s.cluster_m;
  config.cluster_n = s.cluster_n;
  config.cluster_k = s.cluster_k;
  config.ordered = s.ordered;
  config.a_type = request.a_type;
  config.b_type = request.b_type;
  config.out_type = request.epilogue == Epilogue::general ? ElementType::f32 : request.out_type;
  config.scales_by_tma = request.scales_by_tma;
  config.epilogue = request.epilogue;
  config.column_scales = request.column_scales;
  config.schedule = request.schedule;
  config.a_mn_major = request.a_mn_major;
  config.b_mn_major = request.b_mn_major;
  // Give up stages until D fits, as usual or in parts.
  const auto fits = [&] {
    return config.fits(s.splits_d ? config.store_shape() : config.usual_store());
  };
  while (config.stages > 2 && !fits()) --config.stages;
  return config;
}

bool is_fast(const GemmRequest& request) {
  return request.a_type == ElementType::e4m3 && request.b_type == ElementType::e4m3 &&
         request.scales_by_tma && request.epilogue != Epilogue::general;
}

bool is_fast_16bit(const GemmRequest& request) {
  const bool usual = request.b_mn_major || !request.a_mn_major;
  return usual && request.epilogue != Epilogue::general &&
         (request.out_type == request.a_type || request.out_type == ElementType::f32);
}

bool is_grouped(const GemmRequest& request) { return request.schedule != device::Schedule::dense; }

}  // namespace

std::vector<GemmConfig> configs_for(const GemmRequest& request) {
  std::vector<GemmConfig> configs;
  auto take = [&](const Shape& shape) {
    const GemmConfig config = make_config(shape, request);
    if (device::broken_rule(config) == nullptr) configs.push_back(config);
  };
  if (device::bytes_of(request.a_type) == 2) {
    if (is_fast_16bit(request) && is_grouped(request)) {
      for (const Shape& shape : group_shapes_16bit) take(shape);
      if (request.schedule != Schedule::k_groups) {
        for (const Shape& shape : more_row_group_shapes_16bit) take(shape);
      }
    } else if (is_fast_16bit(request)) {
      for (const Shape& shape : fast_shapes_16bit) take(shape);
    } else {
      for (const Shape& shape : general_shapes_16bit) take(shape);
    }
  } else if (is_grouped(request)) {
    if (request.a_type != ElementType::e4m3 || request.b_type != ElementType::e4m3) return configs;
    if (is_fast(request) && request.schedule == Schedule::k_groups) {
      for (const Shape& shape : k_grouped_shapes) take(shape);
    } else if (is_fast(request)) {
      for (const Shape& shape : row_group_shapes) take(shape);
    } else {
      for (const Shape& shape : general_shapes) take(shape);
    }
  } else if (is_fast(request)) {
    for (const Shape& shape : fast_shapes) take(shape);
    if (!request.column_scales) {
      for (const Shape& shape : more_fast_shapes) take(shape);
    }
  } else {
    for (const Shape& shape : general_shapes) take(shape);
  }
  return configs;
}

namespace {

// Every combination of what a problem can demand beside its extents.
template <class Function>
void for_each_demand_16bit(Function&& function) {
  for (ElementType type : {ElementType::bf16, ElementType::f16}) {
    for (int flags = 0; flags < 16; ++flags) {
      GemmRequest request;
      request.a_type = request.b_type = type;
      request.a_mn_major = (flags & 1) != 0;
      request.b_mn_major = (flags & 2) != 0;
      request.schedule = static_cast<Schedule>(flags >> 2);
      for (ElementType out : {ElementType::bf16, ElementType::f16, ElementType::f32}) {
        // Groups of K are summed in FP32 or BF16.
        if (request.schedule == Schedule::k_groups && out == ElementType::f16) continue;
        request.out_type = out;
        request.epilogue = Epilogue::store;
        function(request);
        request.epilogue = Epilogue::accumulate;
        if (out == type || out == ElementType::f32) function(request);
      }
      for (Epilogue epilogue : {Epilogue::reduce, Epilogue::general}) {
        request.epilogue = epilogue;
        function(request);
      }
    }
  }
}
template <class Function>
void for_each_demand_float8(Function&& function) {
  constexpr ElementType inputs[] = {ElementType::e4m3, ElementType::e5m2};
  constexpr ElementType outputs[] = {ElementType::bf16, ElementType::f16, ElementType::f32};
  GemmRequest request;
  for (ElementType a : inputs) {
    for (ElementType b : inputs) {
      for (int flags = 0; flags < 4; ++flags) {
        request.a_type = a;
        request.b_type = b;
        request.column_scales = (flags & 1) != 0;
        request.scales_by_tma = (flags & 2) != 0;
        for (Schedule schedule :
             {Schedule::dense, Schedule::groups, Schedule::labels, Schedule::k_groups}) {
          request.schedule = schedule;
          request.epilogue = Epilogue::store;
          for (ElementType out : outputs) {
            // Groups of K are summed in FP32 or BF16.
            if (schedule == Schedule::k_groups && out == ElementType::f16) continue;
            request.out_type = out;
            function(request);
          }
          for (Epilogue epilogue : {Epilogue::reduce, Epilogue::accumulate, Epilogue::general}) {
            request.epilogue = epilogue;
            function(request);
          }
        }
      }
    }
  }
}

}  // namespace

const std::vector<GemmConfig>& selectable_configs() {
  static const std::vector<GemmConfig> configs = [] {
    std::vector<GemmConfig> all;
    auto add = [&](const GemmRequest& request) {
      for (const GemmConfig& config : configs_for(request)) all.push_back(config);
    };
    for_each_demand_float8(add);
    for_each_demand_16bit(add);
    return all;
  }();
  return configs;
}

std::string describe(const GemmConfig& c) {
  std::string text =
      join(static_cast<int>(c.tile_m), "x", static_cast<int>(c.tile_n), "x", c.stage_k(), ", ",
           static_cast<int>(c.stages), " stages, ", static_cast<int>(c.consumers),
           c.consumers == 1 ? " consumer warpgroup" : " consumer warpgroups");
  if (c.consumers_n > 1) text += join(" (", static_cast<int>(c.consumers_n), " along N)");
  if (c.multicast() > 1) {
    text += join(", cluster ", static_cast<int>(c.cluster_m), "x", static_cast<int>(c.cluster_n),
                 c.cluster_n > 1 ? " sharing A" : " sharing B");
  }
  if (c.cluster_k > 1) text += join(", K split over ", static_cast<int>(c.cluster_k), " CTAs");
  if (c.ordered) text += ", ordered";
  if (c.column_scales) text += ", factors per column";
  if (!c.scales_by_tma) text += ", strided factors";
  if (c.epilogue == Epilogue::reduce) text += ", adds to D";
  if (c.epilogue == Epilogue::accumulate) text += ", adds C";
  if (c.epilogue == Epilogue::general) text += ", general epilogue";
  if (c.a_mn_major) text += ", A M-major";
  if (c.b_mn_major) text += ", B N-major";
  if (c.schedule == Schedule::groups) text += ", groups of rows";
  if (c.schedule == Schedule::labels) text += ", labelled rows";
  if (c.schedule == Schedule::k_groups) text += ", groups of K";
  return text;
}

}  // namespace deepgemm::heuristics
