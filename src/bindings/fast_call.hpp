// Callables that Python calls by the vectorcall protocol: no tuple, no dictionary, no conversion of
// arguments. For what is called once per layer and token; everything else is nanobind's.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file: text converts the same way everywhere
#include <structmember.h>

#include <cstddef>
#include <exception>
#include <initializer_list>
#include <vector>

namespace deepgemm::bindings {

namespace nb = nanobind;

// The parameters of a callable: names in order, of which the first `positional` may be given by
// place and the first `required` have no default. Made once, and never freed.
class Parameters {
 public:
  struct Parameter {
    const char* name;
    PyObject* fallback = Py_None;
  };
  Parameters(const char* function, std::size_t required, std::size_t positional,
             std::initializer_list<Parameter> parameters);

  // Fills found[0] to found[size - 1] with borrowed references; `count` is the vectorcall's own,
  // with its flag. TypeError in Python's words for what does not fit.
  void read(PyObject* const* args, std::size_t count, PyObject* names, nb::handle* found) const;

 private:
  std::size_t index_of(PyObject* name) const;
  [[noreturn]] void refuse_count(std::size_t given) const;

  const char* function_;
  std::size_t required_, positional_;
  std::vector<PyObject*> names_, fallbacks_;  // interned; owned
};

// Where a type written in C keeps something that CPython looks for.
constexpr PyMemberDef offset_member(const char* name, std::size_t offset) {
  return {name, T_PYSSIZET, static_cast<Py_ssize_t>(offset), READONLY, nullptr};
}

// An object without attributes of its own that is called so, and to which Python may give a
// docstring, a name, and what else functools.update_wrapper() sets. Lives as long as the module.
nb::object make_operation(vectorcallfunc call);

// Sets the Python error of an exception of any kind.
void set_python_error(const std::exception_ptr& error);

// What `function` returns as a new reference, or null with the Python error of what it threw.
template <class Function>
PyObject* guarded(Function&& function) noexcept {
  try {
    return function().release().ptr();
  } catch (...) {
    set_python_error(std::current_exception());
    return nullptr;
  }
}

}  // namespace deepgemm::bindings
