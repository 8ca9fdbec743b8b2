#include "bindings/scalars.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>

#include "bindings/errors.hpp"

namespace deepgemm::bindings {
namespace {

// Numbers of hundreds of digits, and more than Python would print, are cut.
std::string shown(nb::handle value) {
  const nb::object text = nb::steal(PyObject_Repr(value.ptr()));
  if (!text.is_valid()) {
    (void)take_python_error();
    return "an object of type " + type_name_of(value);
  }
  std::string word = nb::cast<std::string>(text);
  return word.size() <= 60 ? word : word.substr(0, 57) + "...";
}

std::string found(nb::handle value) {
  return value.is_none() ? "None" : "an object of type " + type_name_of(value);
}

}  // namespace

bool is_number(nb::handle object) {
  if (PyFloat_Check(object.ptr()) || PyLong_Check(object.ptr())) return true;
  // NumPy's scalars are the only other ones with a float() that are not arrays.
  const char* const type = Py_TYPE(object.ptr())->tp_name;
  if (std::strncmp(type, "numpy.", 6) != 0) return false;  // before the length of a longer name
  return std::string_view(type) != "numpy.ndarray" &&
         Py_TYPE(object.ptr())->tp_as_number != nullptr &&
         Py_TYPE(object.ptr())->tp_as_number->nb_float != nullptr &&
         !nb::hasattr(object, "__setitem__");
}

double parse_number(nb::handle value, const char* argument) {
  if (PyFloat_CheckExact(value.ptr())) return PyFloat_AS_DOUBLE(value.ptr());
  const PyNumberMethods* number = Py_TYPE(value.ptr())->tp_as_number;
  if (number == nullptr || (number->nb_float == nullptr && number->nb_index == nullptr)) {
    throw TypeError(complaint(argument, found(value), "a number"));
  }
  const double result = PyFloat_AsDouble(value.ptr());
  if (PyErr_Occurred() == nullptr) return result;
  if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
    PyErr_Clear();
    throw ValueError(complaint(argument, shown(value), "a number that float32 can hold"));
  }
  throw TypeError(complaint(argument, found(value), "a number", take_python_error()));
}

float to_float(double value, const char* argument) {
  if (std::isfinite(value) && std::abs(value) > std::numeric_limits<float>::max()) {
    throw ValueError(
        complaint(argument, shown(nb::float_(value)), "a number that float32 can hold"));
  }
  return static_cast<float>(value);
}

std::int64_t parse_any_integer(nb::handle value, const char* argument) {
  if (!PyIndex_Check(value.ptr())) throw TypeError(complaint(argument, found(value), "an integer"));
  const nb::object number = nb::steal(PyNumber_Index(value.ptr()));
  if (!number.is_valid()) {
    throw TypeError(complaint(argument, found(value), "an integer", take_python_error()));
  }
  int overflow = 0;
  const std::int64_t result = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
  if (overflow == 0) return result;
  throw ValueError(complaint(argument, shown(number), "an integer of 64 bits"));
}

int parse_int(nb::handle value, const char* argument) {
  const std::int64_t result = parse_integer(value, argument);
  if (result >= std::numeric_limits<int>::min() && result <= std::numeric_limits<int>::max()) {
    return static_cast<int>(result);
  }
  throw ValueError(complaint(argument, std::to_string(result), "an integer of 32 bits"));
}

bool parse_flag(nb::handle value, const char* argument) {
  if (PyBool_Check(value.ptr())) return value.ptr() == Py_True;
  const std::string_view type = Py_TYPE(value.ptr())->tp_name;
  if (type == "numpy.bool" || type == "numpy.bool_") return PyObject_IsTrue(value.ptr()) == 1;
  throw TypeError(complaint(argument, is_number(value) ? shown(value) : found(value), "a bool"));
}

std::optional<int> parse_optional_int(nb::handle value, const char* argument) {
  if (value.is_none()) return std::nullopt;
  return parse_int(value, argument);
}

std::optional<bool> parse_optional_flag(nb::handle value, const char* argument) {
  if (value.is_none()) return std::nullopt;
  return parse_flag(value, argument);
}

}  // namespace deepgemm::bindings
