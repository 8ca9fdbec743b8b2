#include "bindings/tensor_import.hpp"

#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bindings/device_array.hpp"
#include "bindings/errors.hpp"

namespace deepgemm::bindings {
namespace {

std::string_view root_module(std::string_view name) { return name.substr(0, name.find('.')); }

// The framework that defined the type or one of its bases.
Framework framework_by_name(PyTypeObject* type) {
  const nb::tuple bases = nb::borrow<nb::tuple>(type->tp_mro);
  for (nb::handle base : bases) {
    const nb::object module = nb::getattr(base, "__module__", nb::none());
    if (!nb::isinstance<nb::str>(module)) continue;
    const std::string name = nb::cast<std::string>(module);
    const std::string_view root = root_module(name);
    if (root == "numpy") return Framework::numpy;
    if (root == "cupy") return Framework::cupy;
    if (root == "jax" || root == "jaxlib") return Framework::jax;
    if (root == "torch") return Framework::torch;
  }
  return Framework::other;
}

// The newest interface of major version 1 that the type offers, or null.
const dlpack::ExchangeApi* exchange_api(PyTypeObject* type) {
  const nb::handle handle(reinterpret_cast<PyObject*>(type));
  const nb::object capsule = nb::getattr(handle, "__dlpack_c_exchange_api__", nb::none());
  if (!PyCapsule_IsValid(capsule.ptr(), dlpack::exchange_capsule_name)) return nullptr;
  const auto* header = static_cast<const dlpack::ExchangeHeader*>(
      PyCapsule_GetPointer(capsule.ptr(), dlpack::exchange_capsule_name));
  while (header != nullptr && header->version.major != 1) header = header->previous;
  return reinterpret_cast<const dlpack::ExchangeApi*>(header);
}

ArrayType classify(PyTypeObject* type) {
  const Framework framework = framework_by_name(type);
  const bool is_torch = framework == Framework::torch;
  if (const dlpack::ExchangeApi* api = exchange_api(type)) {
    return {Framework::exchange, api, is_torch};
  }
  return {framework, nullptr, is_torch};
}

// Subclasses of NumPy's array that mean more, or something else, than their memory says.
void refuse_special(PyTypeObject* type, Framework framework, const char* operand) {
  const nb::tuple bases = nb::borrow<nb::tuple>(type->tp_mro);
  for (nb::handle base : bases) {
    const std::string_view name = reinterpret_cast<PyTypeObject*>(base.ptr())->tp_name;
    const std::string_view word = name.substr(name.rfind('.') + 1);
    if (framework == Framework::numpy && word == "MaskedArray") {
      throw TypeError(complaint(operand, "a numpy.ma.MaskedArray", "a plain array: x.filled(0)",
                                "its mask would be ignored"));
    }
    if (framework == Framework::numpy && word == "matrix") {
      throw TypeError(complaint(operand, "a numpy.matrix", "a plain array: numpy.asarray(x)"));
    }
    if (framework == Framework::jax && word.ends_with("Tracer")) {
      throw TypeError(complaint(operand, "a jax tracer, which has no memory yet",
                                "a concrete array: call it outside jax.jit, grad and vmap"));
    }
  }
}

bool is_array(PyTypeObject* type, Framework framework) {
  if (framework == Framework::exchange || framework == Framework::view ||
      framework == Framework::device_array) {
    return true;
  }
  const nb::handle handle(reinterpret_cast<PyObject*>(type));
  if (framework == Framework::numpy) return nb::hasattr(handle, "__array_struct__");
  return nb::hasattr(handle, "__dlpack__");
}

[[noreturn]] void refuse(nb::handle object, const char* operand) {
  if (object.is_none()) throw TypeError(complaint(operand, "None", "an array"));
  throw TypeError(complaint(operand, "an object of type " + type_name_of(object),
                            "an array with __dlpack__ (torch, cupy, jax, numpy, ...)"));
}

// nanobind types are final here, so that an exact comparison finds them.
ArrayType first_look(nb::handle object, const char* operand) {
  PyTypeObject* type = Py_TYPE(object.ptr());
  ArrayType entry;
  if (nb::isinstance<View>(object)) {
    entry.framework = Framework::view;
  } else if (nb::isinstance<DeviceArray>(object)) {
    entry.framework = Framework::device_array;
  } else {
    entry = classify(type);
    refuse_special(type, entry.framework, operand);
  }
  if (!is_array(type, entry.framework)) refuse(object, operand);
  return entry;
}

const ArrayType& interned(const ArrayType& type) {
  static auto* const known = new std::vector<std::unique_ptr<const ArrayType>>();
  for (const auto& entry : *known) {
    if (*entry == type) return *entry;
  }
  return *known->emplace_back(std::make_unique<const ArrayType>(type));
}

void set_row_major(TensorView& view) {
  std::int64_t stride = 1;
  for (int i = view.rank - 1; i >= 0; --i) {
    view.strides[i] = stride;
    (void)__builtin_mul_overflow(stride, view.shape[i], &stride);  // refused by the operation
  }
}

// Views and DeviceArrays made by __new__ alone hold nothing.
void require_initialised(nb::handle object, const char* operand) {
  if (nb::inst_ready(object)) return;
  throw TypeError(complaint(operand, type_name_of(object) + " that was never initialised",
                            "one made by calling the type"));
}

// A tensor whose storage does not exist (torch's FakeTensor, a meta tensor) has a null pointer.
void require_memory(const TensorView& view, const char* operand) {
  if (view.data == nullptr && view.size() > 0) {
    throw TypeError(complaint(operand, "a fake or meta tensor (its data pointer is null)",
                              "a tensor with memory"));
  }
}

Array import_exchange(nb::handle object, const ArrayType& type, const char* operand) {
  Array array;
  dlpack::Tensor tensor;
  if (type.api->tensor_from_object != nullptr) {
    if (type.api->tensor_from_object(object.ptr(), &tensor) != 0) {
      throw TypeError(complaint(operand, type_name_of(object) + ": " + take_python_error(),
                                "a dense tensor with memory"));
    }
    array.view = view_of(tensor, operand);  // copies the borrowed shape and strides
    if (type.is_torch) refuse_negative(object, array.view, operand);
    return array;
  }
  dlpack::ManagedTensorVersioned* managed = nullptr;
  if (type.api->managed_from_object(object.ptr(), &managed) != 0) {
    throw TypeError(complaint(operand, type_name_of(object) + ": " + take_python_error(),
                              "a dense tensor with memory"));
  }
  array.owner = nb::capsule(managed, [](void* pointer) noexcept {
    auto* tensor_to_free = static_cast<dlpack::ManagedTensorVersioned*>(pointer);
    if (tensor_to_free->deleter != nullptr) tensor_to_free->deleter(tensor_to_free);
  });
  array.view = view_of(managed->tensor, operand);
  array.view.read_only = (managed->flags & dlpack::flag_read_only) != 0;
  if (type.is_torch) refuse_negative(object, array.view, operand);
  return array;
}

Array import_view(nb::handle object, const char* operand) {
  require_initialised(object, operand);
  const View& view = nb::cast<const View&>(object, false);
  Array array = import_array(view.array, operand);
  if (size_in_bytes(array.view.dtype) != size_in_bytes(view.dtype)) {
    throw TypeError(complaint(operand,
                              "a view as " + std::string(name(view.dtype)) + " over " +
                                  std::string(name(array.view.dtype)),
                              "elements of the same size"));
  }
  array.view.dtype = view.dtype;
  return array;
}

const ArrayType& array_type(nb::handle object, const char* operand) {
  // Why: one entry per exact type, with its type kept alive; the last one is tried first because
  // the operands of a call are mostly of one type. The GIL guards both. A program that makes types
  // without end starts over at the limit, so that they can be freed.
  using Types = std::unordered_map<PyTypeObject*, const ArrayType*>;
  constexpr std::size_t most_types = 256;
  static auto* const types = new Types();
  static PyTypeObject* last_type = nullptr;
  static const ArrayType* last = nullptr;
  PyTypeObject* type = Py_TYPE(object.ptr());
  if (last_type == type) return *last;
  const auto found = types->find(type);
  if (found != types->end()) {
    last_type = type;
    return *(last = found->second);
  }
  const ArrayType& entry = interned(first_look(object, operand));  // may run Python, and so this
  Types old;
  if (types->size() >= most_types) old.swap(*types);
  if (types->emplace(type, &entry).second) Py_INCREF(reinterpret_cast<PyObject*>(type));
  last_type = type;
  last = &entry;
  for (const auto& [key, value] : old) Py_DECREF(reinterpret_cast<PyObject*>(key));
  return entry;
}

}  // namespace

void require_rank(std::int64_t rank, const char* operand) {
  if (rank > max_rank || rank < 0) {
    throw ValueError(complaint(operand, "rank " + std::to_string(rank),
                               "rank " + std::to_string(max_rank) + " at most"));
  }
}

nb::tuple extents_tuple(const std::int64_t* extents, int rank) {
  nb::list list;
  for (int i = 0; i < rank; ++i) list.append(extents[i]);
  return nb::tuple(list);
}

TensorView view_of(const dlpack::Tensor& tensor, const char* operand) {
  require_rank(tensor.rank, operand);
  TensorView view;
  view.dtype = dtype_of(tensor.dtype, operand);
  view.rank = tensor.rank;
  for (int i = 0; i < tensor.rank; ++i) view.shape[i] = tensor.shape[i];
  if (tensor.strides != nullptr) {
    for (int i = 0; i < tensor.rank; ++i) view.strides[i] = tensor.strides[i];
  } else {
    set_row_major(view);
  }
  switch (tensor.device.type) {
    case dlpack::device_cpu:
    case dlpack::cuda_host:
      view.device = {DeviceKind::cpu, 0};
      break;
    case dlpack::device_cuda:
    case dlpack::cuda_managed:
      view.device = {DeviceKind::cuda, tensor.device.index};
      break;
    default:
      throw ValueError(complaint(
          operand, "DLPack device type " + std::to_string(tensor.device.type), "CPU or CUDA"));
  }
  if (tensor.data != nullptr) view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  require_memory(view, operand);
  return view;
}

Array import_array(nb::handle object, const char* operand) {
  const ArrayType& type = array_type(object, operand);
  Array array;
  switch (type.framework) {
    case Framework::exchange:
      array = import_exchange(object, type, operand);
      break;
    case Framework::numpy:
      array = import_numpy(object, type, operand);
      break;
    case Framework::cupy:
      array = import_cupy(object, type, operand);
      break;
    case Framework::view:
      return import_view(object, operand);
    case Framework::device_array:
      require_initialised(object, operand);
      array.view = nb::cast<const DeviceArray&>(object, false).view();
      break;
    case Framework::jax:
    case Framework::torch:
    case Framework::other:
      array = import_capsule(object, type, operand);
      break;
  }
  array.type = &type;
  array.source = nb::borrow(object);
  return array;
}

Array import_output(nb::handle object, const char* operand) {
  Array array = import_array(object, operand);
  const Framework framework = array.type->framework;
  if (framework == Framework::jax) {
    throw TypeError(
        complaint(operand, "a jax array, which is immutable", "no out: a new array is returned"));
  }
  if (framework == Framework::exchange || framework == Framework::torch) {
    static PyObject* const attribute = PyUnicode_InternFromString("requires_grad");
    const nb::object requires_grad = nb::steal(PyObject_GetAttr(array.source.ptr(), attribute));
    if (!requires_grad.is_valid()) PyErr_Clear();
    if (requires_grad.ptr() == Py_True) {
      throw ValueError(complaint(operand, "a tensor that requires grad",
                                 "one that does not: pass out.detach()",
                                 "results are written without autograd"));
    }
  }
  if (array.view.read_only) {
    throw ValueError(complaint(operand, "a read-only array", "a writable one"));
  }
  return array;
}

}  // namespace deepgemm::bindings
