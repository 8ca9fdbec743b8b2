// Imports that go through Python attributes: NumPy's array struct, CuPy's pointers, DLPack
// capsules.
#include <vector>

#include "bindings/errors.hpp"
#include "bindings/tensor_import.hpp"

namespace deepgemm::bindings {
namespace {

// What `__array_struct__` points to (NumPy's array interface protocol, version 3).
struct ArrayInterface {
  int two;
  int rank;
  char kind;
  int item_bytes;
  int flags;
  Py_intptr_t* shape;
  Py_intptr_t* strides;  // bytes
  void* data;
  PyObject* description;
};
constexpr int flag_aligned = 0x100, flag_native_order = 0x200, flag_writable = 0x400;

// dtype objects already looked at: NumPy and CuPy share one object per dtype.
struct KnownDtype {
  PyObject* object;
  DType dtype;
};

DType dtype_by_object(nb::handle dtype, const char* operand) {
  static auto* const known = new std::vector<KnownDtype>();
  for (const KnownDtype& entry : *known) {
    if (entry.object == dtype.ptr()) return entry.dtype;
  }
  const DType result = parse_dtype(dtype, operand);
  if (known->size() < 64) known->push_back({dtype.inc_ref().ptr(), result});
  return result;
}

// The integer and IEEE kinds, without asking Python; false for what needs the dtype object.
bool plain_dtype(char kind, int bytes, DType& dtype) {
  if (kind == 'f') {
    if (bytes == 4) return dtype = DType::float32, true;
    if (bytes == 2) return dtype = DType::float16, true;
    if (bytes == 8) return dtype = DType::float64, true;
  } else if (kind == 'u' && bytes <= 2) {
    return dtype = bytes == 1 ? DType::uint8 : DType::uint16, true;
  } else if (kind == 'i') {
    if (bytes == 4) return dtype = DType::int32, true;
    if (bytes == 8) return dtype = DType::int64, true;
    return dtype = bytes == 1 ? DType::int8 : DType::int16, true;
  }
  return false;
}

std::int64_t element_stride(std::int64_t bytes, std::int64_t extent, std::int64_t item_bytes,
                            const char* operand) {
  if (extent <= 1) return 1;  // never used to address anything
  if (bytes % item_bytes != 0) {
    throw ValueError(complaint(operand, "a stride of " + std::to_string(bytes) + " bytes",
                               "a multiple of the element size " + std::to_string(item_bytes)));
  }
  return bytes / item_bytes;
}

std::int64_t tuple_item(nb::handle tuple, Py_ssize_t i) {
  return PyLong_AsLongLong(PyTuple_GET_ITEM(tuple.ptr(), i));
}

// `stream` as the protocol wants it: none for the CPU; on CUDA the legacy default stream, on which
// we launch when nothing is known about the producer's own.
nb::dict capsule_arguments(nb::handle object, Framework framework, const char* operand) {
  nb::dict arguments;
  if (framework == Framework::jax) return arguments;  // synchronised before; takes no -1 everywhere
  const nb::object device = object.attr("__dlpack_device__")();
  const bool is_pair = PyTuple_Check(device.ptr()) && PyTuple_GET_SIZE(device.ptr()) == 2 &&
                       PyLong_Check(PyTuple_GET_ITEM(device.ptr(), 0));
  int overflow = 0;
  const long kind =
      is_pair ? PyLong_AsLongAndOverflow(PyTuple_GET_ITEM(device.ptr(), 0), &overflow) : 0;
  if (!is_pair || overflow != 0) {
    throw TypeError(complaint(operand, "a __dlpack_device__ that returns no device",
                              "a pair of integers (device type, index)"));
  }
  if (kind == dlpack::device_cuda || kind == dlpack::cuda_managed) {
    arguments["stream"] = nb::int_(framework == Framework::torch ? -1 : 1);
  }
  return arguments;
}

bool is_refusal(const nb::python_error& error) {
  return error.matches(PyExc_BufferError) || error.matches(PyExc_TypeError);
}

// Versioned if the producer knows how, else the old form.
nb::object request_capsule(nb::handle object, Framework framework, const char* operand) {
  nb::dict arguments = capsule_arguments(object, framework, operand);
  const nb::object method = object.attr("__dlpack__");
  try {
    nb::dict versioned = nb::borrow<nb::dict>(nb::steal(PyDict_Copy(arguments.ptr())));
    versioned["max_version"] = nb::make_tuple(1, 1);
    return method(**versioned);
  } catch (const nb::python_error& error) {
    if (!is_refusal(error)) throw;
  }
  return method(**arguments);
}

[[noreturn]] void refuse_capsule(nb::handle object, const char* operand, const std::string& why) {
  throw TypeError(complaint(operand, type_name_of(object) + " that exports no memory: " + why,
                            "a dense array with memory"));
}

}  // namespace

nb::object loaded_module(const char* name) {
  return nb::module_::import_("sys").attr("modules")[name];
}

nb::object import_numpy(nb::handle object, const char* operand, TensorView& view) {
  static PyObject* const attribute = PyUnicode_InternFromString("__array_struct__");
  nb::object owner = nb::steal(PyObject_GetAttr(object.ptr(), attribute));
  if (!owner.is_valid()) refuse_capsule(object, operand, take_python_error());
  const auto* source =
      static_cast<const ArrayInterface*>(PyCapsule_GetPointer(owner.ptr(), nullptr));
  if (source == nullptr) refuse_capsule(object, operand, take_python_error());
  require_rank(source->rank, operand);
  if (!plain_dtype(source->kind, source->item_bytes, view.dtype)) {
    view.dtype = dtype_by_object(object.attr("dtype"), operand);
  }
  if ((source->flags & flag_native_order) == 0) {
    throw TypeError(complaint(operand, "an array of foreign byte order", "the native byte order"));
  }
  if ((source->flags & flag_aligned) == 0) refuse_alignment(operand);
  view.rank = source->rank;
  for (int i = 0; i < source->rank; ++i) {
    view.shape[i] = source->shape[i];
    view.strides[i] =
        element_stride(source->strides[i], source->shape[i], source->item_bytes, operand);
  }
  view.data = source->data;
  view.read_only = (source->flags & flag_writable) == 0;
  return owner;
}

nb::object import_cupy(nb::handle object, const char* operand, TensorView& view) {
  // Why not __dlpack__: CuPy exports no float8, and 264 ns against 730 ns (measured, CuPy 14.2).
  const nb::object memory = object.attr("data");
  const nb::object shape = object.attr("shape"), strides = object.attr("strides");
  view.dtype = dtype_by_object(object.attr("dtype"), operand);
  if (!PyTuple_Check(shape.ptr()) || !PyTuple_Check(strides.ptr()) ||
      PyTuple_GET_SIZE(shape.ptr()) != PyTuple_GET_SIZE(strides.ptr())) {
    throw TypeError(complaint(operand, "a shape and strides that are no tuples of one length",
                              "those of a cupy.ndarray"));
  }
  view.rank = static_cast<std::int32_t>(PyTuple_GET_SIZE(shape.ptr()));
  require_rank(view.rank, operand);
  for (int i = 0; i < view.rank; ++i) {
    view.shape[i] = tuple_item(shape, i);
    view.strides[i] =
        element_stride(tuple_item(strides, i), view.shape[i], size_in_bytes(view.dtype), operand);
  }
  const auto address = nb::cast<std::uintptr_t>(memory.attr("ptr"));
  if (address % static_cast<std::uintptr_t>(size_in_bytes(view.dtype)) != 0)
    refuse_alignment(operand);
  view.data = reinterpret_cast<void*>(address);
  view.device = {DeviceKind::cuda, nb::cast<std::int32_t>(memory.attr("device_id"))};
  return {};
}

nb::object import_capsule(nb::handle object, const ArrayType& type, const char* operand,
                          TensorView& view) {
  nb::object owner;
  try {
    if (type.framework == Framework::jax) object.attr("block_until_ready")();
    owner = request_capsule(object, type.framework, operand);
  } catch (nb::python_error& error) {
    const std::string kind = nb::cast<std::string>(nb::str(error.type().attr("__name__")));
    error.restore();
    refuse_capsule(object, operand, kind + ": " + take_python_error());
  }
  // The capsule keeps its name: we borrow, and its destructor calls the producer's deleter.
  PyObject* capsule = owner.ptr();
  if (PyCapsule_IsValid(capsule, dlpack::versioned_capsule_name)) {
    const auto* managed = static_cast<const dlpack::ManagedTensorVersioned*>(
        PyCapsule_GetPointer(capsule, dlpack::versioned_capsule_name));
    if (managed->version.major != 1) {
      refuse_capsule(object, operand, "DLPack version " + std::to_string(managed->version.major));
    }
    read_tensor(managed->tensor, operand, view);
    view.read_only = (managed->flags & dlpack::flag_read_only) != 0;
  } else if (PyCapsule_IsValid(capsule, dlpack::capsule_name)) {
    const auto* managed = static_cast<const dlpack::ManagedTensor*>(
        PyCapsule_GetPointer(capsule, dlpack::capsule_name));
    read_tensor(managed->tensor, operand, view);
  } else {
    refuse_capsule(object, operand, "__dlpack__ returned no fresh DLPack capsule");
  }
  if (type.framework == Framework::jax) view.read_only = true;
  if (type.is_torch && may_be_negative(view)) refuse_negative(object, operand);
  return owner;
}

void refuse_negative(nb::handle object, const char* operand) {
  static PyObject* place = nullptr;
  PyObject* const is_negative = found_once(
      place, [] { return nb::object(loaded_module("torch").attr("Tensor").attr("is_neg")); });
  const nb::object answer = nb::steal(PyObject_CallOneArg(is_negative, object.ptr()));
  if (!answer.is_valid()) {
    throw TypeError(complaint(operand, type_name_of(object) + ": " + take_python_error(),
                              "a dense tensor with memory"));
  }
  if (answer.ptr() == Py_False) return;
  throw TypeError(complaint(operand, "a tensor with the negative bit", "x.resolve_neg()",
                            "its memory holds the values with the other sign"));
}

}  // namespace deepgemm::bindings
