#include "bindings/errors.hpp"

#include <new>

#include "bindings/bind.hpp"
#include "bindings/fast_call.hpp"

namespace deepgemm::bindings {
namespace {

// Live as long as the interpreter: the module holds them too.
PyObject* error_type = nullptr;
PyObject* compile_error_type = nullptr;
PyObject* driver_error_type = nullptr;

PyObject* add_type(nb::module_& module, const char* name, const char* doc, PyObject* base) {
  const std::string full = std::string("deepgemm.") + name;
  PyObject* type = PyErr_NewExceptionWithDoc(full.c_str(), doc, base, nullptr);
  if (type == nullptr) nb::raise_python_error();
  module.attr(name) = nb::borrow(type);
  return type;
}

// Raises `type(message)` with one attribute more.
void raise_with(PyObject* type, const char* message, const char* attribute, nb::object value) {
  nb::object error = nb::steal(PyObject_CallFunction(type, "s", message));
  if (!error.is_valid()) return;
  error.attr(attribute) = value;
  PyErr_SetObject(type, error.ptr());
}

void translate(const std::exception_ptr& pointer, void*) {
  try {
    std::rethrow_exception(pointer);
  } catch (const ValueError& error) {
    PyErr_SetString(PyExc_ValueError, error.what());
  } catch (const TypeError& error) {
    PyErr_SetString(PyExc_TypeError, error.what());
  } catch (const CompileError& error) {
    raise_with(compile_error_type, error.what(), "log",
               nb::str(error.log.data(), error.log.size()));
  } catch (const DriverError& error) {
    raise_with(driver_error_type, error.what(), "code", nb::int_(error.code));
  } catch (const Error& error) {
    PyErr_SetString(error_type, error.what());
  }
}

}  // namespace

void set_python_error(const std::exception_ptr& pointer) {
  try {
    try {
      translate(pointer, nullptr);  // throws on what is none of ours
    } catch (nb::python_error& error) {
      error.restore();
    } catch (const nb::builtin_exception& error) {
      PyErr_SetString(PyExc_TypeError, error.what());
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    } catch (const std::exception& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
  } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown exception");
  }
}

std::string type_name_of(nb::handle object) {
  const nb::handle type = object.type();
  const std::string module = nb::cast<std::string>(nb::str(type.attr("__module__")));
  const std::string name = nb::cast<std::string>(nb::str(type.attr("__qualname__")));
  return module == "builtins" ? name : module + "." + name;
}

std::string take_python_error() {
  if (PyErr_Occurred() == nullptr) return "unknown error";
  const bool is_interruption =
      PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception);
  if (is_interruption) nb::raise_python_error();
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  const nb::object owned_type = nb::steal(type), owned_value = nb::steal(value),
                   owned_trace = nb::steal(trace);
  const nb::object text = nb::steal(value != nullptr ? PyObject_Str(value) : nullptr);
  const char* words = text.is_valid() ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
  if (words == nullptr) {
    PyErr_Clear();
    return "unknown error";
  }
  const std::string message = words;
  return message.substr(0, message.find('\n'));
}

void bind_errors(nb::module_& module) {
  error_type = add_type(
      module, "Error", "Something outside the caller's arguments failed: driver, device, compiler.",
      PyExc_RuntimeError);
  compile_error_type =
      add_type(module, "CompileError",
               "NVRTC was not found or refused a kernel; `log` holds its words.", error_type);
  driver_error_type =
      add_type(module, "DriverError", "A CUDA driver call failed; `code` is the CUresult, or -1.",
               error_type);
  nb::register_exception_translator(translate);
}

}  // namespace deepgemm::bindings
