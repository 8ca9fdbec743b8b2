#include "plan/kernel_specs.hpp"

#include <algorithm>
#include <cstring>

#include "core/text.hpp"

namespace deepgemm::plan {
namespace {

using device::ElementType;
using device::GemmConfig;

int number(std::uint16_t value) { return value; }

// The start of a product's kernel name.
std::string gemm_of(ElementType type) {
  return type == ElementType::bf16  ? "deepgemm_bf16_gemm"
         : type == ElementType::f16 ? "deepgemm_f16_gemm"
                                    : "deepgemm_fp8_gemm";
}

// Field by field and by name, so that the text stays right when the struct changes.
std::string persistent_gemm_entry(const jit::KernelSpec& spec) {
  GemmConfig c;
  std::memcpy(&c, spec.config.data(), sizeof(c));
  return join(
      "#include \"kernels/gemm.cuh\"\n"
      "using namespace deepgemm::device;\n"
      "constexpr GemmConfig config{.tile_m = ",
      number(c.tile_m), ", .tile_n = ", number(c.tile_n), ", .consumers = ", number(c.consumers),
      ", .consumers_n = ", number(c.consumers_n), ", .stages = ", number(c.stages),
      ", .cluster_m = ", number(c.cluster_m), ", .cluster_n = ", number(c.cluster_n),
      ", .cluster_k = ", number(c.cluster_k), ", .ordered = ", number(c.ordered),
      ",\n    .a_type = ElementType::", name_of(c.a_type),
      ", .b_type = ElementType::", name_of(c.b_type),
      ", .out_type = ElementType::", name_of(c.out_type),
      ", .column_scales = ", number(c.column_scales),
      ", .scales_by_tma = ", number(c.scales_by_tma), ",\n    .epilogue = static_cast<Epilogue>(",
      static_cast<int>(c.epilogue), "), .schedule = static_cast<Schedule>(",
      static_cast<int>(c.schedule), "), .a_mn_major = ", number(c.a_mn_major),
      ", .b_mn_major = ", number(c.b_mn_major),
      "};\n"
      "extern \"C\" __global__ void __launch_bounds__(config.threads(), 1)\n",
      spec.name,
      "(const __grid_constant__ GemmParams params) {\n"
      "  gemm<config>(params);\n"
      "}\n");
}

std::string decode_entry(const jit::KernelSpec& spec) {
  device::DecodeConfig c;
  std::memcpy(&c, spec.config.data(), sizeof(c));
  return join(
      "#include \"kernels/decode.cuh\"\n"
      "using namespace deepgemm::device;\n"
      "constexpr DecodeConfig config{.tokens = ",
      number(c.tokens), ", .consumers = ", number(c.consumers),
      ", .stage_blocks = ", number(c.stage_blocks), ", .stages = ", number(c.stages),
      ", .cluster_k = ", number(c.cluster_k), ", .ctas_per_sm = ", number(c.ctas_per_sm),
      ",\n    .a_type = ElementType::", name_of(c.a_type),
      ", .b_type = ElementType::", name_of(c.b_type),
      ", .out_type = ElementType::", name_of(c.out_type),
      ", .general_epilogue = ", number(c.general_epilogue),
      "};\n"
      "extern \"C\" __global__ void __launch_bounds__(config.threads(), config.ctas_per_sm)\n",
      spec.name,
      "(const __grid_constant__ DecodeParams params) {\n"
      "  decode<config>(params);\n"
      "}\n");
}

// `least_ctas`: CTAs that an SM must have registers for; 0 leaves it to the compiler.
std::string simple_entry(std::string_view header, std::string_view params, int threads,
                         std::string_view name, std::string_view call, int least_ctas = 0) {
  const std::string least = least_ctas > 0 ? join(", ", least_ctas) : std::string();
  return join("#include \"kernels/", header,
              "\"\n"
              "using namespace deepgemm::device;\n"
              "extern \"C\" __global__ void __launch_bounds__(",
              threads, least, ")\n", name, "(const __grid_constant__ ", params, " params) {\n  ",
              call, "(params);\n}\n");
}

std::string general_gemm_entry(const jit::KernelSpec& spec) {
  return simple_entry("general_gemm.cuh", "GeneralGemmParams", device::GeneralConfig::threads,
                      spec.name, "general_gemm");
}

std::string general_grouped_entry(const jit::KernelSpec& spec) {
  device::GeneralGroupedConfig c;
  std::memcpy(&c, spec.config.data(), sizeof(c));
  const std::string call =
      join("general_grouped<GeneralGroupedConfig{.schedule = GroupSchedule::", name_of(c.schedule),
           "}>");
  return simple_entry("general_grouped.cuh", "GeneralGroupedParams", device::GeneralConfig::threads,
                      spec.name, call, device::GeneralGroupedConfig::ctas_per_sm);
}

std::string quantize_entry(const jit::KernelSpec& spec) {
  device::QuantizeConfig c;
  std::memcpy(&c, spec.config.data(), sizeof(c));
  const std::string call = join("quantize<QuantizeConfig{.k_per_scale = ", number(c.k_per_scale),
                                ", .whole_cta = ", number(c.whole_cta),
                                ", .values_e5m2 = ", number(c.values_e5m2), "}>");
  return simple_entry("quantize.cuh", "QuantizeParams", device::QuantizeConfig::threads, spec.name,
                      call);
}

std::string dequantize_entry(const jit::KernelSpec& spec) {
  return simple_entry("quantize.cuh", "QuantizeParams", device::QuantizeConfig::threads, spec.name,
                      "dequantize");
}

std::string scale_layout_entry(const jit::KernelSpec& spec) {
  return simple_entry("scale_layout.cuh", "ScaleLayoutParams", device::ScaleLayoutConfig::threads,
                      spec.name, "scale_layout");
}

}  // namespace

std::string_view name_of(device::ElementType type) noexcept {
  switch (type) {
    case ElementType::e4m3:
      return "e4m3";
    case ElementType::e5m2:
      return "e5m2";
    case ElementType::bf16:
      return "bf16";
    case ElementType::f16:
      return "f16";
    case ElementType::f32:
      return "f32";
    default:
      return "e8m0";
  }
}

std::string_view name_of(device::GroupSchedule schedule) noexcept {
  switch (schedule) {
    case device::GroupSchedule::labels:
      return "labels";
    case device::GroupSchedule::k:
      return "k";
    default:
      return "rows";
  }
}

jit::KernelSpec persistent_gemm_spec(const GemmConfig& config) {
  return {gemm_of(config.a_type),
          std::string(reinterpret_cast<const char*>(&config), sizeof(config)),
          persistent_gemm_entry, device::shared_map(config).total};
}

jit::KernelSpec decode_spec(const device::DecodeConfig& config) {
  const int most = device::shared_bytes_per_sm / config.ctas_per_sm - 1024;
  return {gemm_of(config.a_type) + "_decode",
          std::string(reinterpret_cast<const char*>(&config), sizeof(config)), decode_entry,
          std::min(most, device::max_shared_bytes)};
}

jit::KernelSpec general_gemm_spec() {
  return {"deepgemm_general_gemm", {}, general_gemm_entry, device::GeneralConfig::shared_bytes};
}

jit::KernelSpec general_grouped_spec(const device::GeneralGroupedConfig& config) {
  return {"deepgemm_general_grouped",
          std::string(reinterpret_cast<const char*>(&config), sizeof(config)),
          general_grouped_entry, device::GeneralConfig::shared_bytes};
}

jit::KernelSpec quantize_spec(const device::QuantizeConfig& config) {
  return {"dg_quantize", std::string(reinterpret_cast<const char*>(&config), sizeof(config)),
          quantize_entry, device::QuantizeConfig::shared_bytes};
}

jit::KernelSpec dequantize_spec() { return {"dg_dequantize", {}, dequantize_entry, 0}; }

jit::KernelSpec scale_layout_spec() {
  return {"dg_scale_layout", {}, scale_layout_entry, device::ScaleLayoutConfig::shared_bytes};
}

}  // namespace deepgemm::plan
