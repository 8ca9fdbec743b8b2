#include "bindings/fast_call.hpp"

#include <algorithm>
#include <cstddef>
#include <string>

namespace deepgemm::bindings {
namespace {

struct Operation {
  PyObject ob_base;
  vectorcallfunc call;
  PyObject* attributes;
  PyObject* references;  // weak ones
};

void free_operation(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_ClearWeakRefs(self);
  Py_XDECREF(reinterpret_cast<Operation*>(self)->attributes);
  type->tp_free(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

// As a function that is no method: pydoc then documents the object and not its type.
PyObject* itself(PyObject* self, PyObject*, PyObject*) {
  Py_INCREF(self);
  return self;
}

// Pickled and copied as functions are: by name.
PyObject* reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(self, "__qualname__"); }

PyObject* represent(PyObject* self) {
  PyObject* name = PyObject_GetAttrString(self, "__qualname__");
  if (name == nullptr) return nullptr;
  PyObject* text = PyUnicode_FromFormat("<operation deepgemm.%U>", name);
  Py_DECREF(name);
  return text;
}

PyMemberDef operation_members[] = {
    offset_member("__vectorcalloffset__", offsetof(Operation, call)),
    offset_member("__dictoffset__", offsetof(Operation, attributes)),
    offset_member("__weaklistoffset__", offsetof(Operation, references)),
    {}};
PyMethodDef operation_methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr},
                                   {nullptr, nullptr, 0, nullptr}};
PyGetSetDef operation_attributes[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyType_Slot operation_slots[] = {{Py_tp_members, operation_members},
                                 {Py_tp_getset, operation_attributes},
                                 {Py_tp_methods, operation_methods},
                                 {Py_tp_repr, reinterpret_cast<void*>(represent)},
                                 {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                                 {Py_tp_descr_get, reinterpret_cast<void*>(itself)},
                                 {Py_tp_dealloc, reinterpret_cast<void*>(free_operation)},
                                 {0, nullptr}};
PyType_Spec operation_spec = {
    "deepgemm._ext.Operation", sizeof(Operation), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    operation_slots};

[[noreturn]] void refuse(const std::string& message) { throw nb::type_error(message.c_str()); }

}  // namespace

Parameters::Parameters(const char* function, std::size_t required, std::size_t positional,
                       std::initializer_list<Parameter> parameters)
    : function_(function), required_(required), positional_(positional) {
  for (const Parameter& parameter : parameters) {
    names_.push_back(PyUnicode_InternFromString(parameter.name));
    fallbacks_.push_back(nb::borrow(parameter.fallback).release().ptr());
  }
}

void Parameters::read(PyObject* const* args, std::size_t count, PyObject* names,
                      nb::handle* found) const {
  const auto given = static_cast<std::size_t>(PyVectorcall_NARGS(count));
  if (given > positional_) refuse_count(given);
  std::copy(args, args + given, found);
  if (names == nullptr && given >= required_) {
    std::copy(fallbacks_.begin() + static_cast<std::ptrdiff_t>(given), fallbacks_.end(),
              found + given);
    return;
  }
  for (std::size_t i = given; i < names_.size(); ++i) found[i] = nullptr;
  const std::size_t named =
      names == nullptr ? 0 : static_cast<std::size_t>(PyTuple_GET_SIZE(names));
  for (std::size_t i = 0; i < named; ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, static_cast<Py_ssize_t>(i));
    nb::handle& place = found[index_of(name)];
    if (place.is_valid()) {
      refuse(std::string(function_) + "() got multiple values for argument '" +
             PyUnicode_AsUTF8(name) + "'");
    }
    place = args[given + i];
  }
  for (std::size_t i = given; i < names_.size(); ++i) {
    if (found[i].is_valid()) continue;
    if (i < required_) {
      refuse(std::string(function_) + "() missing a required argument: '" +
             nb::cast<std::string>(nb::handle(names_[i])) + "'");
    }
    found[i] = fallbacks_[i];
  }
}

// Names in a call are interned, so that the first pass nearly always finds them.
std::size_t Parameters::index_of(PyObject* name) const {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == name) return i;
  }
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (PyUnicode_Compare(names_[i], name) == 0) return i;
  }
  refuse(std::string(function_) + "() got an unexpected keyword argument " +
         nb::repr(nb::handle(name)).c_str());  // a name need not be valid UTF-8
}

void Parameters::refuse_count(std::size_t given) const {
  refuse(std::string(function_) + "() takes from " + std::to_string(required_) + " to " +
         std::to_string(positional_) + " positional arguments but " + std::to_string(given) +
         " were given");
}

nb::object make_operation(vectorcallfunc call) {
  static auto* const type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&operation_spec));
  if (type == nullptr) nb::raise_python_error();
  auto* made = reinterpret_cast<Operation*>(type->tp_alloc(type, 0));
  if (made == nullptr) nb::raise_python_error();
  made->call = call;
  return nb::steal(reinterpret_cast<PyObject*>(made));
}

}  // namespace deepgemm::bindings
