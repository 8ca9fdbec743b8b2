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

// "deepgemm_fp8_gemm (config 0300...)": how messages name a kernel.
std::string describe(const KernelSpec& spec);

}  // namespace deepgemm::jit
