// The one architecture that the kernels are built for, and how much of a device a call may occupy.
#pragma once

#include "deepgemm/gemm.hpp"
#include "driver/driver.hpp"

namespace deepgemm::plan {

// Throws Error that names the device if it is not of compute capability 9.0.
const driver::DeviceInfo& hopper_device(int ordinal);

// SMs that a kernel may occupy. Where `limited`, the persistent, grouped, quantise, dequantise and
// scale layout kernels launch at most `count` CTAs and the decode kernel is taken only if it needs
// no more: CTAs are spread over free SMs, so that no other bound holds. The general kernel of dense
// products has one CTA per tile and no limit.
struct SmBudget {
  int count = 132;
  bool limited = false;
};
// The smaller of CallOptions::num_sms and Policy::num_sms (0 or unset: all), at most `present`.
// ValueError that names the negative one.
SmBudget sm_budget(int present, int num_sms, const Policy* policy);

}  // namespace deepgemm::plan
