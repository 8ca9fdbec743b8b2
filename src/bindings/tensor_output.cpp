#include "bindings/tensor_output.hpp"

#include <string>
#include <utility>
#include <vector>

#include "bindings/device_array.hpp"
#include "bindings/errors.hpp"
#include "bindings/gil.hpp"
#include "deepgemm/device_memory.hpp"
#include "deepgemm/scaling.hpp"

namespace deepgemm::bindings {
namespace {

using Shape = std::vector<std::int64_t>;

nb::tuple to_tuple(const Shape& shape) {
  return extents_tuple(shape.data(), static_cast<int>(shape.size()));
}

Output import_result(nb::object object) {
  Output output;
  output.array = import_array(object, "out", output.view);
  output.object = std::move(object);
  return output;
}

Output viewed_as(nb::object storage, DType dtype) {
  return import_result(nb::cast(View{std::move(storage), dtype}));
}

const char* storage_name(DType dtype) { return size_in_bytes(dtype) == 1 ? "uint8" : "uint16"; }

bool is_extension_dtype(DType dtype) {
  return is_float8(dtype) || dtype == DType::float8_e8m0fnu || dtype == DType::bfloat16;
}

// NumPy's dtype object, or None if ml_dtypes is needed and not installed. Cached for ever:
// importing and looking up costs microseconds.
nb::object numpy_dtype(DType dtype) {
  static auto* const cache = new std::vector<std::pair<DType, PyObject*>>();
  for (const auto& [known, object] : *cache) {
    if (known == dtype) return nb::borrow(object);
  }
  const std::string text(name(dtype));
  nb::object result = nb::module_::import_("deepgemm._arrays").attr("numpy_dtype")(text.c_str());
  cache->emplace_back(dtype, nb::object(result).release().ptr());
  return result;
}

nb::object numpy_empty() {
  static PyObject* place = nullptr;
  return nb::borrow(found_once(
      place, [] { return nb::object(nb::module_::import_("deepgemm._arrays").attr("empty")); }));
}

struct CallbackError {
  std::string text;
};

void set_error(void* context, const char*, const char* message) {
  static_cast<CallbackError*>(context)->text = message;
}

Output allocate_exchange(const Array& like, DType dtype, Shape shape) {
  const dlpack::ExchangeApi& api = *like.type->api;
  dlpack::Tensor prototype;
  prototype.device = dlpack_device(like.device);
  prototype.rank = static_cast<std::int32_t>(shape.size());
  prototype.dtype = dlpack_type(dtype);
  prototype.shape = shape.data();
  dlpack::ManagedTensorVersioned* managed = nullptr;
  CallbackError problem;
  if (api.allocate(&prototype, &managed, &problem, set_error) != 0) {
    if (PyErr_Occurred() != nullptr) problem.text = take_python_error();
    throw Error("out: allocation failed (" + problem.text.substr(0, problem.text.find('\n')) + ")");
  }
  void* object = nullptr;
  if (api.managed_to_object(managed, &object) != 0) nb::raise_python_error();
  return import_result(nb::steal(static_cast<PyObject*>(object)));
}

// cupy.empty allocates on the current device: make the input's current for the scope.
class CupyDevice {
 public:
  explicit CupyDevice(int index)
      : device_(loaded_module("cupy").attr("cuda").attr("Device")(index)) {
    device_.attr("__enter__")();
  }
  ~CupyDevice() {
    try {
      device_.attr("__exit__")(nb::none(), nb::none(), nb::none());
    } catch (const nb::python_error&) {
      // Why: a destructor may not throw, and the allocation's own error says more.
    }
  }
  CupyDevice(const CupyDevice&) = delete;
  CupyDevice& operator=(const CupyDevice&) = delete;

 private:
  nb::object device_;
};

Output allocate_cupy(const Array& like, DType dtype, const Shape& shape) {
  const CupyDevice device(like.device.index);
  const nb::object empty = loaded_module("cupy").attr("empty");
  if (is_extension_dtype(dtype)) {
    // CuPy knows bfloat16 if ml_dtypes is there, and no float8.
    const nb::object native = dtype == DType::bfloat16 ? numpy_dtype(dtype) : nb::none();
    if (!native.is_none()) return import_result(empty(to_tuple(shape), native));
    return viewed_as(empty(to_tuple(shape), storage_name(dtype)), dtype);
  }
  return import_result(empty(to_tuple(shape), std::string(name(dtype)).c_str()));
}

Output allocate_torch(const Array& like, DType dtype, const Shape& shape) {
  const nb::object torch = loaded_module("torch");
  nb::dict arguments;
  arguments["dtype"] = torch.attr(std::string(name(dtype)).c_str());
  arguments["device"] = like.source.attr("device");
  return import_result(torch.attr("empty")(to_tuple(shape), **arguments));
}

Output allocate_own(const Array& like, DType dtype, const Shape& shape) {
  return import_result(nb::cast(DeviceArray(shape, dtype, like.device)));
}

Output allocate(const Array& like, DType dtype, const Shape& shape) {
  switch (like.type->framework) {
    case Framework::exchange:
      return allocate_exchange(like, dtype, shape);
    case Framework::numpy:
      return allocate_numpy(dtype, shape.data(), static_cast<int>(shape.size()));
    case Framework::cupy:
      return allocate_cupy(like, dtype, shape);
    case Framework::torch:
      return allocate_torch(like, dtype, shape);
    case Framework::jax:  // adopted by finish()
    case Framework::device_array:
      return allocate_own(like, dtype, shape);
    case Framework::view:
    case Framework::other:
      break;
  }
  throw TypeError(complaint("out", "None", "an output array",
                            "no way is known to allocate in " + type_name_of(like.source)));
}

}  // namespace

Output allocate_numpy(DType dtype, const std::int64_t* shape, int rank) {
  const nb::tuple extents = extents_tuple(shape, rank);
  const nb::object native = numpy_dtype(dtype);
  if (!native.is_none()) return import_result(numpy_empty()(extents, native));
  return viewed_as(numpy_empty()(extents, storage_name(dtype)), dtype);
}

Output allocate_like(const Array& like, DType dtype, std::initializer_list<std::int64_t> shape) {
  return allocate(like, dtype, shape);
}

Output allocate_fast_scales(const Array& like, DType dtype, std::int64_t rows, std::int64_t k) {
  const std::int64_t padded = fast_scale_pitch(rows);
  const Framework framework = like.type->framework;
  if (framework == Framework::jax) return allocate(like, dtype, {rows, k});
  Output base = allocate(like, dtype, {k, padded});
  if (framework == Framework::device_array) {
    const auto& array = nb::cast<const DeviceArray&>(base.object, false);
    return import_result(nb::cast(array.strided({rows, k}, {1, padded}, 0)));
  }
  nb::object turned = base.object.attr("T");
  if (padded == rows) return import_result(std::move(turned));  // a slice costs microseconds
  return import_result(turned[nb::slice(nb::int_(0), nb::int_(rows), nb::int_(1))]);
}

Output allocate_fast_scales(const Array& like, DType dtype, std::int64_t groups, std::int64_t rows,
                            std::int64_t k) {
  const std::int64_t padded = fast_scale_pitch(rows);
  const Framework framework = like.type->framework;
  if (framework == Framework::jax) return allocate(like, dtype, {groups, rows, k});
  Output base = allocate(like, dtype, {groups, k, padded});
  if (framework == Framework::device_array) {
    const auto& array = nb::cast<const DeviceArray&>(base.object, false);
    return import_result(nb::cast(array.strided({groups, rows, k}, {k * padded, 1, padded}, 0)));
  }
  const auto every = nb::slice(nb::none(), nb::none(), nb::none());
  const auto first = nb::slice(nb::int_(0), nb::int_(rows), nb::int_(1));
  nb::object turned = base.object.attr("swapaxes")(1, 2);
  if (padded == rows) return import_result(std::move(turned));
  return import_result(turned[nb::make_tuple(every, first)]);
}

nb::object finish(Output& output, const Array& like, Stream stream) {
  if (like.type->framework != Framework::jax) return std::move(output.object);
  const Device device = like.device;
  if (device.kind == DeviceKind::cuda) {
    const GilReleased released;
    synchronize_stream(stream, device.index);
  }
  return loaded_module("jax").attr("dlpack").attr("from_dlpack")(output.object);
}

}  // namespace deepgemm::bindings
