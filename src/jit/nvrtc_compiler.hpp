// Entry source + embedded device sources -> cubin for sm_90a.
#pragma once

#include <string>
#include <vector>

#include "jit/kernel.hpp"

namespace deepgemm::jit {

inline constexpr const char* target_arch = "sm_90a";

// What every kernel is compiled with; part of the key. `verbose` adds ptxas' resource report, which
// changes the log only.
std::vector<std::string> compile_options(bool verbose);

// Throws CompileError with the kernel's name, config and NVRTC's whole log. Thread safe; compiles
// of different threads run in parallel.
Cubin compile_with_nvrtc(const KernelSpec& spec, bool verbose);

// "deepgemm_fp8_gemm (config 0300...)": equal for two specs only if the kernel is the same.
std::string identity(const KernelSpec& spec);
// "deepgemm_fp8_gemm (e4m3 x e4m3, out bf16, 128x128x128, 4 stages, ...)": how messages name a
// kernel. The identity where the words of its config are not known.
std::string describe(const KernelSpec& spec);
// What reads a config, which is bytes to this folder, in words; empty for one that it does not
// know.
using ConfigWords = std::string (*)(const KernelSpec&);
void set_config_words(ConfigWords words) noexcept;

}  // namespace deepgemm::jit
