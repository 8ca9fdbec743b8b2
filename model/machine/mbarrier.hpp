// What the asynchronous units do to mbarriers.
#pragma once

#include "machine/machine.hpp"

namespace sm90 {

void complete_bytes(Cta& cta, Address address, int bytes);

}  // namespace sm90
