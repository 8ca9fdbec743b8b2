// Which kernel a policy asks for, by name or by fields that only one kernel has.
#pragma once

#include <string>

#include "deepgemm/gemm.hpp"

namespace deepgemm::plan {

struct WantedKernel {
  // Fields that fit both tensor-core kernels (stages, consumers) rule out the general one.
  enum class Choice { any, tensor_core, persistent, decode, general } choice = Choice::any;
  std::string field, value;  // what asks for it: "policy.tile_m", "128"
};
// ValueError for an unknown name and for fields of different kernels.
WantedKernel wanted_kernel(const Policy* policy);
// ValueError that names the field, if it asks for a kernel that `obstacle` (empty: none) rules out.
void check_possible(const WantedKernel& wanted, const std::string& obstacle);

}  // namespace deepgemm::plan
