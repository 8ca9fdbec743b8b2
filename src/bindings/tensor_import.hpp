// From a Python array of any framework to a TensorView, without copying and in tens of nanoseconds.
// What a type offers is found once per exact type; afterwards an import is one C call (exchange
// API), one attribute (NumPy, CuPy) or one capsule (everything else that speaks DLPack).
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>  // in every file: text converts the same way everywhere

#include <string>

#include "bindings/dlpack_abi.hpp"
#include "deepgemm/gemm.hpp"
#include "deepgemm/tensor.hpp"

namespace deepgemm::bindings {

namespace nb = nanobind;

enum class Framework : std::uint8_t {
  exchange,  // offers the DLPack C exchange API (PyTorch >= 2.10)
  numpy,     // and NumPy scalars
  cupy,
  jax,
  torch,         // PyTorch without the exchange API
  device_array,  // deepgemm.DeviceArray
  view,          // deepgemm.view(x, dtype)
  other,         // any other object with __dlpack__
};

// What is known about an exact Python type. Types that offer the same share one; none is ever
// freed.
struct ArrayType {
  Framework framework = Framework::other;
  const dlpack::ExchangeApi* api = nullptr;
  bool is_torch = false;                       // also with the exchange API
  const PyGetSetDef* requires_grad = nullptr;  // the attribute, where it is one written in C
  friend bool operator==(const ArrayType&, const ArrayType&) = default;
};

// What stands behind a view. Holds its object: a list of the caller's may lose it while the GIL is
// released.
struct Array {
  bool given() const { return type != nullptr; }

  const ArrayType* type = nullptr;  // of `source`; null: no array
  nb::object owner;                 // what keeps the memory exported, if the source alone does not
  nb::object source;                // the framework's object: inside a view, the viewed one
  Device device;
};

// A logical dtype over an array that stores it as integers of the same size.
struct View {
  nb::object array;
  DType dtype = DType::uint8;
};

// Writes `view`, which is new: in its place among the arguments of an operation, since a copy of
// each costs as much as the rest of the import. `operand` names the array in errors. Throws
// TypeError for what is no array or has no memory.
Array import_array(nb::handle object, const char* operand, TensorView& view);
// The same for an array that will be written: refuses what cannot be (jax, requires_grad).
Array import_output(nb::handle object, const char* operand, TensorView& view);

DType dtype_of(const dlpack::DataType& dtype, const char* operand);
dlpack::DataType dlpack_type(DType dtype) noexcept;
dlpack::Device dlpack_device(Device device) noexcept;
// A str, or the dtype object or scalar class of any framework.
DType parse_dtype(nb::handle dtype, const char* argument);

// The stream that a caller named, else the current one of the array's framework on its device.
Stream find_stream(nb::handle stream, const Array& array);

// A framework's module, which the caller has imported: we import none ourselves.
nb::object loaded_module(const char* name);
// What `find` gave the first time, kept for good in `place`, a static of the caller. Why no static
// with an initialiser: `find` may run Python, and a thread that takes the GIL meanwhile would wait
// for the initialiser while it holds the GIL.
template <class Find>
PyObject* found_once(PyObject*& place, Find&& find) {
  if (place == nullptr) {
    nb::object found = find();
    if (place == nullptr) place = found.release().ptr();
  }
  return place;
}

// Shared by the files of this folder.
void require_rank(std::int64_t rank, const char* operand);  // max_rank at most
// Memory that is not aligned to its elements: a GPU faults at it. Why such functions are not
// inlined: the texts that they make would have every import save registers for them.
[[noreturn, gnu::noinline]] void refuse_alignment(const char* operand);
nb::tuple extents_tuple(const std::int64_t* extents, int rank);
void read_tensor(const dlpack::Tensor& tensor, const char* operand, TensorView& view);
// PyTorch's lazy negation (x.conj().imag) is a bit of the tensor that no export carries. Only parts
// of complex tensors have it, which lie two elements apart, and torch refuses to read such a tensor
// as another dtype: what is float8 or bfloat16, or has an odd stride, needs no look, which costs
// some 50 ns.
inline bool may_be_negative(const TensorView& view) {
  if (view.dtype != DType::float32 && view.dtype != DType::float16 &&
      view.dtype != DType::float64) {
    return false;
  }
  bool odd = false;
  for (int i = 0; i < view.rank; ++i) odd |= view.shape[i] > 1 && view.strides[i] % 2 != 0;
  return !odd;
}
void refuse_negative(nb::handle object, const char* operand);
// Each writes `view` and returns the owner of its memory, if that is not the object.
nb::object import_numpy(nb::handle object, const char* operand, TensorView& view);
nb::object import_cupy(nb::handle object, const char* operand, TensorView& view);
nb::object import_capsule(nb::handle object, const ArrayType& type, const char* operand,
                          TensorView& view);

}  // namespace deepgemm::bindings
