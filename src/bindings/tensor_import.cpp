#include "bindings/tensor_import.hpp"

#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
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

// Called itself, it costs a third less than the attribute.
const PyGetSetDef* requires_grad_of(PyTypeObject* type) {
  if (type->tp_getattro != PyObject_GenericGetAttr) return nullptr;
  const nb::handle handle(reinterpret_cast<PyObject*>(type));
  const nb::object attribute = nb::getattr(handle, "requires_grad", nb::none());
  if (Py_TYPE(attribute.ptr()) != &PyGetSetDescr_Type) return nullptr;
  if (!PyType_IsSubtype(type, PyDescr_TYPE(attribute.ptr()))) return nullptr;  // another type's
  return reinterpret_cast<PyGetSetDescrObject*>(attribute.ptr())->d_getset;
}

ArrayType classify(PyTypeObject* type) {
  const Framework framework = framework_by_name(type);
  const bool is_torch = framework == Framework::torch;
  const PyGetSetDef* requires_grad = is_torch ? requires_grad_of(type) : nullptr;
  if (const dlpack::ExchangeApi* api = exchange_api(type)) {
    return {Framework::exchange, api, is_torch, requires_grad};
  }
  return {framework, nullptr, is_torch, requires_grad};
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

// Four at most: a loop that the compiler unrolls, where it would call memcpy.
void copy_extents(const std::int64_t* extents, int rank, std::array<std::int64_t, max_rank>& into) {
  for (int i = 0; i < max_rank; ++i) {
    if (i < rank) into[i] = extents[i];
  }
}

[[noreturn, gnu::noinline]] void refuse_uninitialised(nb::handle object, const char* operand) {
  throw TypeError(complaint(operand, type_name_of(object) + " that was never initialised",
                            "one made by calling the type"));
}

// Views and DeviceArrays made by __new__ alone hold nothing.
void require_initialised(nb::handle object, const char* operand) {
  if (!nb::inst_ready(object)) refuse_uninitialised(object, operand);
}

// A tensor whose storage does not exist (torch's FakeTensor, a meta tensor) has a null pointer.
[[noreturn, gnu::noinline]] void refuse_fake(const char* operand) {
  throw TypeError(complaint(operand, "a fake or meta tensor (its data pointer is null)",
                            "a tensor with memory"));
}

[[noreturn, gnu::noinline]] void refuse_device(const dlpack::Device& device, const char* operand) {
  throw ValueError(
      complaint(operand, "DLPack device type " + std::to_string(device.type), "CPU or CUDA"));
}

[[noreturn, gnu::noinline]] void refuse_rank(std::int64_t rank, const char* operand) {
  throw ValueError(complaint(operand, "rank " + std::to_string(rank),
                             "rank " + std::to_string(max_rank) + " at most"));
}

}  // namespace

void require_rank(std::int64_t rank, const char* operand) {
  if (rank > max_rank || rank < 0) refuse_rank(rank, operand);
}

void refuse_alignment(const char* operand) {
  throw ValueError(complaint(operand, "an array whose elements are not aligned",
                             "elements aligned to their size"));
}

void read_tensor(const dlpack::Tensor& tensor, const char* operand, TensorView& view) {
  require_rank(tensor.rank, operand);
  view.dtype = dtype_of(tensor.dtype, operand);
  view.rank = tensor.rank;
  copy_extents(tensor.shape, tensor.rank, view.shape);
  if (tensor.strides != nullptr) {
    copy_extents(tensor.strides, tensor.rank, view.strides);
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
      refuse_device(tensor.device, operand);
  }
  if (tensor.data != nullptr) view.data = static_cast<char*>(tensor.data) + tensor.byte_offset;
  if (view.data == nullptr && view.size() > 0) refuse_fake(operand);
  // A power of two, as every known dtype has: a division took longer than all the rest of this.
  const std::uintptr_t bytes = tensor.dtype.bits / 8U;
  const auto address = reinterpret_cast<std::uintptr_t>(view.data);
  if ((address & (bytes - 1)) != 0) refuse_alignment(operand);
}

namespace {

[[noreturn, gnu::noinline]] void refuse_export(nb::handle object, const char* operand) {
  throw TypeError(complaint(operand, type_name_of(object) + ": " + take_python_error(),
                            "a dense tensor with memory"));
}

// The owner of the memory.
nb::object import_managed(nb::handle object, const ArrayType& type, const char* operand,
                          TensorView& view) {
  dlpack::ManagedTensorVersioned* managed = nullptr;
  if (type.api->managed_from_object(object.ptr(), &managed) != 0) refuse_export(object, operand);
  nb::object owner = nb::capsule(managed, [](void* pointer) noexcept {
    auto* tensor_to_free = static_cast<dlpack::ManagedTensorVersioned*>(pointer);
    if (tensor_to_free->deleter != nullptr) tensor_to_free->deleter(tensor_to_free);
  });
  read_tensor(managed->tensor, operand, view);
  view.read_only = (managed->flags & dlpack::flag_read_only) != 0;
  return owner;
}

nb::object import_exchange(nb::handle object, const ArrayType& type, const char* operand,
                           TensorView& view) {
  nb::object owner;
  if (type.api->tensor_from_object != nullptr) {
    dlpack::Tensor tensor;
    if (type.api->tensor_from_object(object.ptr(), &tensor) != 0) refuse_export(object, operand);
    read_tensor(tensor, operand, view);  // copies the borrowed shape and strides
  } else {
    owner = import_managed(object, type, operand, view);
  }
  if (type.is_torch && may_be_negative(view)) refuse_negative(object, operand);
  return owner;
}

Array import_view(nb::handle object, const char* operand, TensorView& view) {
  require_initialised(object, operand);
  const View& given = *nb::inst_ptr<View>(object);
  Array array = import_array(given.array, operand, view);
  if (size_in_bytes(view.dtype) != size_in_bytes(given.dtype)) {
    throw TypeError(complaint(
        operand,
        "a view as " + std::string(name(given.dtype)) + " over " + std::string(name(view.dtype)),
        "elements of the same size"));
  }
  view.dtype = given.dtype;
  return array;
}

// One entry per exact type, with its type kept alive; the last one is tried first because the
// operands of a call are mostly of one type. The GIL guards both.
PyTypeObject* last_type = nullptr;
const ArrayType* last = nullptr;

// A program that makes types without end starts over at the limit, so that they can be freed.
[[gnu::noinline]] const ArrayType& find_type(nb::handle object, const char* operand) {
  using Types = std::unordered_map<PyTypeObject*, const ArrayType*>;
  constexpr std::size_t most_types = 256;
  static auto* const types = new Types();
  PyTypeObject* type = Py_TYPE(object.ptr());
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

const ArrayType& array_type(nb::handle object, const char* operand) {
  return last_type == Py_TYPE(object.ptr()) ? *last : find_type(object, operand);
}

// The owner of the memory, if that is not the object.
nb::object import_memory(nb::handle object, const ArrayType& type, const char* operand,
                         TensorView& view) {
  switch (type.framework) {
    case Framework::exchange:
      return import_exchange(object, type, operand, view);
    case Framework::numpy:
      return import_numpy(object, operand, view);
    case Framework::cupy:
      return import_cupy(object, operand, view);
    case Framework::device_array:
      require_initialised(object, operand);
      view = nb::inst_ptr<DeviceArray>(object)->view();
      return {};
    case Framework::view:
    case Framework::jax:
    case Framework::torch:
    case Framework::other:
      break;
  }
  return import_capsule(object, type, operand, view);
}

}  // namespace

nb::tuple extents_tuple(const std::int64_t* extents, int rank) {
  nb::list list;
  for (int i = 0; i < rank; ++i) list.append(extents[i]);
  return nb::tuple(list);
}

Array import_array(nb::handle object, const char* operand, TensorView& view) {
  const ArrayType& type = array_type(object, operand);
  if (type.framework == Framework::view) return import_view(object, operand, view);
  nb::object owner = import_memory(object, type, operand, view);
  // Field by field, as it was just written: a load of both would wait for the two stores.
  const Device device{view.device.kind, view.device.index};
  return {&type, std::move(owner), nb::borrow(object), device};
}

namespace {

bool requires_grad(const Array& array) {
  static PyObject* const name = PyUnicode_InternFromString("requires_grad");
  PyObject* const source = array.source.ptr();
  const PyGetSetDef* known = array.type->requires_grad;
  const nb::object answer = nb::steal(known != nullptr ? known->get(source, known->closure)
                                                       : PyObject_GetAttr(source, name));
  if (!answer.is_valid()) PyErr_Clear();
  return answer.ptr() == Py_True;
}

}  // namespace

Array import_output(nb::handle object, const char* operand, TensorView& view) {
  Array array = import_array(object, operand, view);
  const Framework framework = array.type->framework;
  if (framework == Framework::jax) {
    throw TypeError(
        complaint(operand, "a jax array, which is immutable", "no out: a new array is returned"));
  }
  if (framework == Framework::exchange || framework == Framework::torch) {
    if (requires_grad(array)) {
      throw ValueError(complaint(operand, "a tensor that requires grad",
                                 "one that does not: pass out.detach()",
                                 "results are written without autograd"));
    }
  }
  if (view.read_only) {
    throw ValueError(complaint(operand, "a read-only array", "a writable one"));
  }
  return array;
}

}  // namespace deepgemm::bindings
