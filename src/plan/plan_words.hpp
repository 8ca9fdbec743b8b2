// A plan in words: its config, and what TMA is told of each operand.
#pragma once

#include <string>
#include <vector>

#include "plan/gemm_plan.hpp"
#include "plan/grouped_call.hpp"
#include "plan/tma_matrices.hpp"

namespace deepgemm::plan {

// "128x256x128, 3 stages, ..."; of the general kernels their tile.
std::string config_words(const GemmPlan& plan);
// Of a kernel of quantize() or dequantize().
std::string quantize_words(const jit::KernelSpec& spec);
// Every descriptor that a launch of the plan has, in the order in which it encodes them.
std::vector<TmaMatrix> descriptors_of(const GemmPlan& plan, const GemmProblem& problem,
                                      const GemmArgs& first, const GroupLayout& stack);
// One line for each: operand, element type, extents, pitches, box, swizzle, L2 promotion.
std::string descriptor_words(const GemmPlan& plan, const GemmProblem& problem,
                             const GemmArgs& first, const GroupLayout& stack);

}  // namespace deepgemm::plan
