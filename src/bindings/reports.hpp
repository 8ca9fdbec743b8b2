// What the bindings of explanations and plans share.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file: text converts the same way everywhere

#include <optional>

#include "deepgemm/runtime.hpp"

namespace deepgemm::bindings {

namespace nb = nanobind;

// A KernelReport as deepgemm.Report's fields.
nb::dict to_dict(const KernelReport& report);
// The named device, else the arrays', else a GPU that is there, else -1: the figures of an H200.
int device_of(std::optional<int> named, Device arrays);

}  // namespace deepgemm::bindings
