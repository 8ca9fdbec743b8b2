// A KernelReport as deepgemm.Report's fields.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file: text converts the same way everywhere

#include "deepgemm/runtime.hpp"

namespace deepgemm::bindings {

nanobind::dict to_dict(const KernelReport& report);

}  // namespace deepgemm::bindings
