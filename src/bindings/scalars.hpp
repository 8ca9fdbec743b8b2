// Numbers and flags among the arguments. What is none of the kind is a TypeError, what does not fit
// a ValueError, both in the form of every other error.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file: text converts the same way everywhere

#include <cstdint>
#include <optional>

namespace deepgemm::bindings {

namespace nb = nanobind;

// True for int, float and NumPy scalars.
bool is_number(nb::handle object);
// Those, and any other object with __float__, such as a tensor of one element.
double parse_number(nb::handle value, const char* argument);
// `value` as float32; finite stays finite.
float to_float(double value, const char* argument);
// int, or anything with __index__.
std::int64_t parse_any_integer(nb::handle value, const char* argument);
inline std::int64_t parse_integer(nb::handle value, const char* argument) {
  if (PyLong_CheckExact(value.ptr())) {  // the usual case, at a tenth of the cost
    int overflow = 0;
    const std::int64_t result = PyLong_AsLongLongAndOverflow(value.ptr(), &overflow);
    if (overflow == 0) return result;
  }
  return parse_any_integer(value, argument);
}
int parse_int(nb::handle value, const char* argument);
// bool, or NumPy's.
bool parse_flag(nb::handle value, const char* argument);
// The same, or unset for None.
std::optional<int> parse_optional_int(nb::handle value, const char* argument);
std::optional<bool> parse_optional_flag(nb::handle value, const char* argument);

}  // namespace deepgemm::bindings
