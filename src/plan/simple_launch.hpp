// Launches of the kernels without a plan: quantise, dequantise, scale layouts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "deepgemm/gemm.hpp"
#include "jit/kernel.hpp"

namespace deepgemm::plan {

// Places of these kernels among each other, fewer than 32.
inline constexpr unsigned number_of_quantize = 0, number_of_dequantize = 12,
                          number_of_scale_layout = 13;

struct SimpleKernel {
  jit::KernelSpec spec;
  unsigned number;
  unsigned threads;
};

// A CTA takes so many items at a time, and strides over the rest.
struct Work {
  std::int64_t items = 0, items_per_cta = 1;
};

// `params`: the kernel's one parameter. `record`: its problem, which is told of when a thread needs
// the kernel for the first time.
void launch_simple(const SimpleKernel& kernel, int device, const Work& work, void* params,
                   const CallOptions& call, const std::function<std::string()>& record);

}  // namespace deepgemm::plan
