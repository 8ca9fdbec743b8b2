// quantize and dequantize on a CUDA device.
#include <algorithm>

#include "plan/cuda_backend.hpp"
#include "plan/kernel_specs.hpp"
#include "plan/operands.hpp"
#include "plan/problem_record.hpp"
#include "plan/simple_launch.hpp"

namespace deepgemm::plan {
namespace {

using device::QuantizeConfig;
using device::QuantizeParams;

// A block of at most this many elements is one warp's.
constexpr std::int64_t warp_block = 4096;

std::int64_t at_least_1(std::int64_t extent) { return std::max<std::int64_t>(extent, 1); }

QuantizeParams params_of(const RowsByK& wide, const RowsByK& values) {
  QuantizeParams p{};
  p.wide = wide.values->data;
  p.wide_row = wide.row_stride;
  p.wide_k = wide.k_stride;
  p.values = values.values->data;
  p.values_row = values.row_stride;
  p.values_k = values.k_stride;
  p.rows = values.rows;
  p.k = values.k;
  // Why clamped: the kernels index within a block in 32 bits.
  p.rows_per_scale = std::clamp<std::int64_t>(values.rows_per_scale, 1, at_least_1(values.rows));
  p.k_per_scale = std::clamp<std::int64_t>(values.k_per_scale, 1, at_least_1(values.k));
  p.wide_type = static_cast<int>(element_type(wide.values->dtype));
  p.values_type = static_cast<int>(element_type(values.values->dtype));
  if (values.sf != nullptr) {
    p.sf = values.sf->data;
    p.sf_row = values.sf_row_stride;
    p.sf_k = values.sf_k_stride;
    p.sf_type = static_cast<int>(element_type(values.sf->dtype));
  }
  return p;
}

// The kernel of quantize() for one matrix.
QuantizeConfig config_of(const RowsByK& out, DType values) {
  QuantizeConfig config;
  const std::int64_t block =
      std::min(out.rows_per_scale, out.rows) * std::min(out.k_per_scale, out.k);
  config.whole_cta = block > warp_block;
  config.values_e5m2 = values == DType::float8_e5m2;
  if (out.k_per_scale == 32 || out.k_per_scale == 128) {
    config.k_per_scale = static_cast<std::uint16_t>(out.k_per_scale);
  }
  return config;
}

unsigned number_of(const QuantizeConfig& config) {
  const unsigned k = config.k_per_scale == 0 ? 0U : config.k_per_scale == 32 ? 1U : 2U;
  return number_of_quantize + 4 * k + (config.whole_cta ? 2U : 0U) + (config.values_e5m2 ? 1U : 0U);
}

}  // namespace

jit::KernelSpec kernel_of_quantize(const TensorView& values, const Granularity& granularity) {
  return quantize_spec(config_of(operand_of({values, {}, {}}, granularity), values.dtype));
}

void quantize(const TensorView& x, const TensorView& values, const TensorView& sf,
              const QuantizeOptions& options, const CallOptions& call) {
  const ScaledView wide{x, {}, {}}, quantized{values, sf, {}};
  const RowsByK out = operand_of(quantized, options.granularity);
  QuantizeParams params = params_of(operand_of(wide, options.granularity), out);
  params.amax_floor = options.amax_floor;
  params.power_of_two = options.power_of_two;
  const QuantizeConfig config = config_of(out, values.dtype);
  // From sf and not from x: an x without elements can still have factors.
  params.blocks = sf.size();
  params.blocks_k = sf.rank == 2 ? sf.shape[1] : 1;
  launch_simple({quantize_spec(config), number_of(config), QuantizeConfig::threads},
                values.device.index,
                {params.blocks, config.whole_cta ? 1 : QuantizeConfig::threads / 32}, &params, call,
                [&] { return record_of_quantize(values, options.granularity); });
}

void dequantize(const ScaledView& x, const TensorView& out, const CallOptions& call) {
  const ScaledView wide{out, {}, {}};
  const Granularity granularity = x.granularity.value_or(per_tensor);
  QuantizeParams params = params_of(operand_of(wide, granularity), operand_of(x, granularity));
  launch_simple({dequantize_spec(), number_of_dequantize, QuantizeConfig::threads},
                out.device.index, {out.size(), QuantizeConfig::threads}, &params, call,
                [&] { return record_of_dequantize(x.values); });
}

}  // namespace deepgemm::plan
