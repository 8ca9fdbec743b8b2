// The Python face of DeviceArray, and its DLPack export.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <optional>
#include <utility>

#include "bindings/bind.hpp"
#include "bindings/device_array.hpp"
#include "bindings/errors.hpp"
#include "bindings/gil.hpp"
#include "bindings/scalars.hpp"
#include "bindings/tensor_import.hpp"
#include "bindings/tensor_output.hpp"

namespace deepgemm::bindings {
namespace {

using namespace nb::literals;

// What a DLPack consumer holds: the memory, and room for the extents that the tensor points to.
template <class Managed>
struct Export {
  explicit Export(const DeviceArray& array) : memory(array.memory()) {
    const TensorView& view = array.view();
    shape = view.shape;
    strides = view.strides;
    managed.tensor.data = view.data;
    managed.tensor.device = dlpack_device(view.device);
    managed.tensor.rank = view.rank;
    managed.tensor.dtype = dlpack_type(view.dtype);
    managed.tensor.shape = shape.data();
    managed.tensor.strides = strides.data();
    managed.context = this;
    managed.deleter = [](Managed* self) { delete static_cast<Export*>(self->context); };
  }
  Managed managed;
  std::shared_ptr<void> memory;
  std::array<std::int64_t, max_rank> shape, strides;
};

// A consumer renames the capsule and takes the tensor over; otherwise it is ours to free.
template <class Managed>
void destroy_capsule(PyObject* capsule, const char* name) {
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

// Whether the consumer wants us to order our work before its own: it does unless it says -1.
bool wants_order(nb::handle stream) {
  if (stream.is_none()) return true;
  const std::int64_t handle = parse_integer(stream, "stream");
  if (handle >= -1) return handle != -1;
  throw ValueError(complaint("stream", std::to_string(handle), "None, -1, or a CUstream handle"));
}

// max_version is (major, minor).
bool wants_versioned(nb::handle max_version) {
  if (max_version.is_none()) return false;
  if (PyTuple_Check(max_version.ptr()) && PyTuple_GET_SIZE(max_version.ptr()) == 2) {
    return parse_integer(PyTuple_GET_ITEM(max_version.ptr(), 0), "max_version") >= 1;
  }
  throw TypeError(complaint("max_version", "an object of type " + type_name_of(max_version),
                            "a tuple (major, minor)"));
}

nb::object to_dlpack(const DeviceArray& array, nb::handle stream, nb::handle max_version,
                     nb::handle dl_device, nb::handle copy) {
  if (copy.ptr() == Py_True || !dl_device.is_none()) {
    PyErr_SetString(PyExc_BufferError, "DeviceArray: exports neither copies nor other devices");
    nb::raise_python_error();
  }
  // Work of this library may be in flight on any stream: wait, unless the consumer declines (-1).
  if (wants_order(stream)) {
    const GilReleased released;
    array.synchronize();
  }
  if (wants_versioned(max_version)) {
    auto owned = std::make_unique<Export<dlpack::ManagedTensorVersioned>>(array);
    owned->managed.version = {1, 1};
    nb::object capsule = nb::steal(
        PyCapsule_New(&owned->managed, dlpack::versioned_capsule_name, [](PyObject* self) {
          destroy_capsule<dlpack::ManagedTensorVersioned>(self, dlpack::versioned_capsule_name);
        }));
    if (capsule.is_valid()) (void)owned.release();
    return capsule;
  }
  auto owned = std::make_unique<Export<dlpack::ManagedTensor>>(array);
  nb::object capsule =
      nb::steal(PyCapsule_New(&owned->managed, dlpack::capsule_name, [](PyObject* self) {
        destroy_capsule<dlpack::ManagedTensor>(self, dlpack::capsule_name);
      }));
  if (capsule.is_valid()) (void)owned.release();
  return capsule;
}

nb::tuple device_pair(const DeviceArray& array) {
  const dlpack::Device device = dlpack_device(array.view().device);
  return nb::make_tuple(int{device.type}, device.index);
}

Device device_from_index(int index) {
  if (index < 0) return {DeviceKind::cpu, 0};
  return {DeviceKind::cuda, index};
}

nb::tuple shape_of(const DeviceArray& array) {
  return extents_tuple(array.view().shape.data(), array.view().rank);
}
nb::tuple strides_of(const DeviceArray& array) {
  return extents_tuple(array.view().strides.data(), array.view().rank);
}

DeviceArray from_numpy(nb::handle source, nb::handle dtype, nb::handle device) {
  const Device place = device_from_index(parse_int(device, "device"));
  TensorView view;
  const Array array = import_array(source, "array", view);
  if (view.device.kind != DeviceKind::cpu) {
    throw ValueError(complaint("array", describe(view), "an array in host memory"));
  }
  if (!dtype.is_none()) {
    const DType logical = parse_dtype(dtype, "dtype");
    if (size_in_bytes(logical) != size_in_bytes(view.dtype)) {
      throw TypeError(complaint("dtype", std::string(name(logical)),
                                "elements of the size of " + std::string(name(view.dtype))));
    }
    view.dtype = logical;
  }
  if (!is_row_major(view)) {
    throw ValueError(complaint("array", describe(view), "a C-contiguous array",
                               "numpy.ascontiguousarray makes one"));
  }
  const GilReleased released;
  DeviceArray result({view.shape.begin(), view.shape.begin() + view.rank}, view.dtype, place);
  result.copy_from(view.data);
  return result;
}

nb::object to_numpy(const DeviceArray& self) {
  if (!is_row_major(self.view())) {
    throw ValueError(complaint("to_numpy", describe(self.view()), "a contiguous array"));
  }
  const TensorView& view = self.view();
  Output output = allocate_numpy(view.dtype, view.shape.data(), view.rank);
  {
    const GilReleased released;
    self.copy_to(output.view.data);
  }
  return output.object;
}

}  // namespace

void bind_device_array(nb::module_& module) {
  nb::class_<DeviceArray>(
      module, "DeviceArray", nb::is_final(),
      "Memory on CUDA device `device` (host memory if it is -1), for use without a framework.\n\n"
      "It speaks DLPack, so torch, cupy and jax can adopt it. Operations on DeviceArrays run on\n"
      "the default stream unless given another; to_numpy() waits for the default stream.")
      .def(
          "__init__",
          [](DeviceArray* self, const std::vector<std::int64_t>& shape, nb::handle dtype,
             nb::handle device) {
            const DType type = parse_dtype(dtype, "dtype");
            const Device place = device_from_index(parse_int(device, "device"));
            const GilReleased released;
            new (self) DeviceArray(shape, type, place);
          },
          "shape"_a, "dtype"_a.none(), "device"_a.none() = 0,
          nb::sig("def __init__(self, shape: Sequence[int], dtype: object, device: int = 0) -> "
                  "None"))
      .def_prop_ro("shape", &shape_of, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro("strides", &strides_of, nb::sig("def strides(self) -> tuple[int, ...]"),
                   "In elements.")
      .def_prop_ro("dtype", [](const DeviceArray& a) { return std::string(name(a.view().dtype)); })
      .def_prop_ro("device",
                   [](const DeviceArray& a) {
                     const Device device = a.view().device;
                     return device.kind == DeviceKind::cpu ? -1 : device.index;
                   })
      .def_prop_ro("nbytes", &DeviceArray::size_bytes)
      .def_prop_ro(
          "data_ptr",
          [](const DeviceArray& a) { return reinterpret_cast<std::uintptr_t>(a.view().data); })
      .def_static("from_numpy", &from_numpy, "array"_a.none(), "dtype"_a = nb::none(),
                  "device"_a.none() = 0,
                  nb::sig("def from_numpy(array: object, dtype: object | None = None, device: int "
                          "= 0) -> DeviceArray"),
                  "Copies a C-contiguous array; `dtype` re-reads elements of the same size.")
      .def("to_numpy", &to_numpy, nb::sig("def to_numpy(self) -> typing.Any"),
           "Copies to a NumPy array (ml_dtypes for bfloat16 and float8).")
      .def("fill", &DeviceArray::fill, "byte"_a, nb::call_guard<GilReleased>(), "Sets every byte.")
      .def("strided", &DeviceArray::strided, "shape"_a, "strides"_a, "offset"_a = 0,
           nb::sig("def strided(self, shape: Sequence[int], strides: Sequence[int], offset: int = "
                   "0) -> DeviceArray"),
           "Another shape over the same memory; strides and offset in elements.")
      .def("synchronize", &DeviceArray::synchronize, nb::call_guard<GilReleased>(),
           "Waits for all work of the device.")
      .def("__repr__",
           [](const DeviceArray& a) { return "DeviceArray(" + describe(a.view()) + ")"; })
      .def("__dlpack_device__", &device_pair,
           nb::sig("def __dlpack_device__(self) -> tuple[int, int]"))
      .def("__dlpack__", &to_dlpack, nb::kw_only(), "stream"_a = nb::none(),
           "max_version"_a = nb::none(), "dl_device"_a = nb::none(), "copy"_a = nb::none(),
           nb::sig("def __dlpack__(self, *, stream: object | None = None, max_version: "
                   "tuple[int, int] | None = None, dl_device: object | None = None, copy: bool | "
                   "None = None) -> object"));
}

}  // namespace deepgemm::bindings
