#include "plan/hopper.hpp"

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

}  // namespace deepgemm::plan
