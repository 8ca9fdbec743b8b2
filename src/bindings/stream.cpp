// Which CUDA stream a call runs on.
#include "bindings/errors.hpp"
#include "bindings/tensor_import.hpp"

namespace deepgemm::bindings {
namespace {

Stream from_integer(nb::handle value) {
  const unsigned long long handle = PyLong_AsUnsignedLongLong(value.ptr());
  if (handle == static_cast<unsigned long long>(-1) && PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    throw ValueError(complaint("stream", nb::cast<std::string>(nb::repr(value)),
                               "a CUstream handle (an integer >= 0)"));
  }
  return reinterpret_cast<Stream>(static_cast<std::uintptr_t>(handle));
}

Stream from_object(nb::handle stream) {
  if (PyLong_Check(stream.ptr())) return from_integer(stream);
  if (nb::hasattr(stream, "__cuda_stream__")) {  // cuda.core's protocol: (version, handle)
    const nb::object pair = stream.attr("__cuda_stream__")();
    return from_integer(nb::object(pair[1]));
  }
  for (const char* attribute : {"cuda_stream", "ptr"}) {
    const nb::object value = nb::getattr(stream, attribute, nb::none());
    if (PyLong_Check(value.ptr())) return from_integer(value);
  }
  throw TypeError(complaint("stream", "an object of type " + type_name_of(stream),
                            "an integer handle, or an object with __cuda_stream__, cuda_stream "
                            "or ptr"));
}

// torch's function from a device's index to the handle of its current stream; null if it has none.
// Why not the exchange interface's, which answers the same: it took 1.1 us (torch 2.11 on an H200
// machine), more than all the rest of a call.
PyObject* raw_stream_of_torch() {
  static PyObject* place = nullptr;
  PyObject* const function = found_once(place, [] {
    const nb::object c = nb::getattr(loaded_module("torch"), "_C", nb::none());
    return nb::getattr(c, "_cuda_getCurrentRawStream", nb::none());
  });
  return function == Py_None ? nullptr : function;
}

Stream current_stream_of_torch(PyObject* raw_stream, int device) {
  const nb::int_ index(device);
  const nb::object current = nb::steal(PyObject_CallOneArg(raw_stream, index.ptr()));
  if (!current.is_valid()) throw Error("stream: no current stream (" + take_python_error() + ")");
  return from_integer(current);
}

}  // namespace

Stream find_stream(nb::handle stream, const Array& array) {
  if (!stream.is_none()) return from_object(stream);
  const Device device = array.device;
  if (device.kind == DeviceKind::cpu) return nullptr;
  if (array.type->is_torch) {
    if (PyObject* raw_stream = raw_stream_of_torch()) {
      return current_stream_of_torch(raw_stream, device.index);
    }
  }
  if (array.type->framework == Framework::exchange) {
    void* current = nullptr;
    if (array.type->api->current_stream(dlpack::device_cuda, device.index, &current) != 0) {
      throw Error("stream: no current stream (" + take_python_error() + ")");
    }
    return static_cast<Stream>(current);
  }
  if (array.type->framework == Framework::cupy) {
    const nb::object cuda = loaded_module("cupy").attr("cuda");
    return from_integer(cuda.attr("get_current_stream")(device.index).attr("ptr"));
  }
  if (array.type->framework == Framework::torch) {
    const nb::object cuda = loaded_module("torch").attr("cuda");
    return from_integer(cuda.attr("current_stream")(device.index).attr("cuda_stream"));
  }
  return nullptr;  // jax is synchronised before and after; DeviceArray uses the default stream
}

}  // namespace deepgemm::bindings
