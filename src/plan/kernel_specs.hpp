// The kernels of the library as jit::KernelSpec: name, config bytes, and the text that
// instantiates.
#pragma once

#include "device/common/decode_config.cuh"
#include "device/common/gemm_config.cuh"
#include "device/common/simple_configs.cuh"
#include "jit/kernel.hpp"

namespace deepgemm::plan {

// "e4m3": as the device sources name it.
std::string_view name_of(device::ElementType type) noexcept;
// "labels": likewise.
std::string_view name_of(device::GroupSchedule schedule) noexcept;

jit::KernelSpec persistent_gemm_spec(const device::GemmConfig& config);
// shared_bytes is the most that a launch may use; decode_shared_bytes() is what one uses.
jit::KernelSpec decode_spec(const device::DecodeConfig& config);
jit::KernelSpec general_gemm_spec();
jit::KernelSpec general_grouped_spec(const device::GeneralGroupedConfig& config);
jit::KernelSpec quantize_spec(const device::QuantizeConfig& config);
jit::KernelSpec dequantize_spec();
jit::KernelSpec scale_layout_spec();

}  // namespace deepgemm::plan
