// Exceptions of this module and their way into Python.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file: text converts the same way everywhere

#include <string>
#include <string_view>

#include "deepgemm/error.hpp"

namespace deepgemm::bindings {

namespace nb = nanobind;

// "a: found a list, need an array" and, with a rule, " (rule)" behind it: the form of all errors.
std::string complaint(std::string_view operand, std::string_view found, std::string_view need,
                      std::string_view rule = {});
// "torch.Tensor", "list": the type of an object, as a message shows it.
std::string type_name_of(nb::handle object);
// Takes the Python error that is set and returns its first line, without a C++ backtrace.
std::string take_python_error();

// Adds Error, CompileError and DriverError to the module and translates the library's exceptions.
void bind_errors(nb::module_& module);

}  // namespace deepgemm::bindings
