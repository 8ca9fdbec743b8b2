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
  int count = present;
  const auto limit = [&](const char* name, int asked) {
    if (asked < 0) throw ValueError(complaint(name, to_text(asked), "0 (all) or more"));
    if (asked > 0) count = std::min(count, asked);
  };
  limit("num_sms", num_sms);
  if (policy && policy->num_sms) limit("policy.num_sms", *policy->num_sms);
  return {count, count < present};
}

}  // namespace deepgemm::plan
