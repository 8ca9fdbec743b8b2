// What each file of this folder adds to the module.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file: text converts the same way everywhere

namespace deepgemm::bindings {

namespace nb = nanobind;

void bind_errors(nb::module_& module);
void bind_view(nb::module_& module);
void bind_device_array(nb::module_& module);
void bind_options(nb::module_& module);
void bind_gemm(nb::module_& module);
void bind_grouped(nb::module_& module);
void bind_plan(nb::module_& module);
void bind_quantize(nb::module_& module);
void bind_scale_layout(nb::module_& module);
void bind_runtime(nb::module_& module);
void bind_reports(nb::module_& module);
void bind_problems(nb::module_& module);
void bind_cache(nb::module_& module);

}  // namespace deepgemm::bindings
