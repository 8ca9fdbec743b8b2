// Exceptions of this module and their way into Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file: text converts the same way everywhere

#include <string>

#include "core/text.hpp"
#include "deepgemm/error.hpp"

namespace deepgemm::bindings {

namespace nb = nanobind;

// "torch.Tensor", "list": the type of an object, as a message shows it.
std::string type_name_of(nb::handle object);
// Takes the Python error that is set and returns its first line, without a traceback. What is no
// error of the object's own (KeyboardInterrupt, SystemExit, MemoryError) is thrown on.
std::string take_python_error();

}  // namespace deepgemm::bindings
