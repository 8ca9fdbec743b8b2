// The one architecture that the kernels are built for.
#pragma once

#include "driver/driver.hpp"

namespace deepgemm::plan {

// Throws Error that names the device if it is not of compute capability 9.0.
const driver::DeviceInfo& hopper_device(int ordinal);

}  // namespace deepgemm::plan
