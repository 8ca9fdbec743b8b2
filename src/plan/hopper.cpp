#include "plan/hopper.hpp"

#include <algorithm>

#include "core/text.hpp"

namespace deepgemm::plan {

const driver::DeviceInfo& hopper_device(int ordinal) {
  const driver::DeviceInfo& info = driver::device(ordinal);
  if (info.is_hopper()) return info;
  throw Error(complaint(
      join("device cuda:", ordinal),
      join(info.name, " of compute capability ", info.compute_major, ".", info.compute_minor),
      "an NVIDIA Hopper GPU (compute capability 9.0)", "the kernels are built for sm_90a"));
}

SmBudget sm_budget(int present, int num_sms, const Policy* policy) {
  if (num_sms < 0) throw ValueError(complaint("num_sms", to_text(num_sms), "0 (all) or more"));
  int count = num_sms == 0 ? present : std::min(num_sms, present);
  if (policy && policy->num_sms) {
    if (*policy->num_sms < 1) {
      throw ValueError(complaint("policy.num_sms", to_text(*policy->num_sms), "1 or more"));
    }
    count = std::min(count, *policy->num_sms);
  }
  return {count, count < present};
}

}  // namespace deepgemm::plan
