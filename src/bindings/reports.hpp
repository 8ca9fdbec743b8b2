// What the bindings of explanations share.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "deepgemm/runtime.hpp"

namespace deepgemm::bindings {

namespace nb = nanobind;

nb::dict to_dict(const KernelReport& report);
// The named device, else the arrays', else a GPU that is there, else -1: the figures of an H200.
int device_of(std::optional<int> named, Device arrays);

}  // namespace deepgemm::bindings
