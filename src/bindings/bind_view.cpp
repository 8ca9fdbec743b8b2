// deepgemm._ext.View, and what tests ask about an import.

#include <string>

#include "bindings/bind.hpp"
#include "bindings/errors.hpp"
#include "bindings/tensor_import.hpp"

namespace deepgemm::bindings {
namespace {

using namespace nb::literals;

void make_view_object(View* self, nb::object array, nb::handle dtype) {
  const DType logical = parse_dtype(dtype, "dtype");
  TensorView given, view;
  import_array(array, "array", given);  // refuses a View that was never initialised
  nb::object stored =
      nb::isinstance<View>(array) ? nb::cast<const View&>(array, false).array : std::move(array);
  import_array(stored, "array", view);
  const DType found = view.dtype;
  if (size_in_bytes(found) != size_in_bytes(logical)) {
    throw TypeError(complaint("array", std::string(name(found)),
                              "elements of the size of " + std::string(name(logical))));
  }
  new (self) View{std::move(stored), logical};
}

nb::dict inspect(nb::handle object) {
  TensorView view;
  const Array array = import_array(object, "array", view);
  nb::dict result;
  result["pointer"] = reinterpret_cast<std::uintptr_t>(view.data);
  result["dtype"] = std::string(name(view.dtype));
  result["device"] = describe(view.device);
  result["shape"] = extents_tuple(view.shape.data(), view.rank);
  result["strides"] = extents_tuple(view.strides.data(), view.rank);
  result["read_only"] = view.read_only;
  return result;
}

void import_five(nb::handle a, nb::handle b, nb::handle c, nb::handle d, nb::handle e) {
  TensorView views[5];
  import_array(a, "a", views[0]);
  import_array(b, "b", views[1]);
  import_array(c, "c", views[2]);
  import_array(d, "d", views[3]);
  import_array(e, "e", views[4]);
}

}  // namespace

void bind_view(nb::module_& module) {
  nb::class_<View>(module, "View", nb::is_final(),
                   "An array read as another dtype of the same element size.")
      .def("__init__", &make_view_object, "array"_a.none(), "dtype"_a.none(),
           nb::sig("def __init__(self, array: object, dtype: object) -> None"))
      .def_prop_ro(
          "array", [](const View& view) { return view.array; },
          nb::sig("def array(self) -> typing.Any"), "The array given.")
      .def_prop_ro("dtype", [](const View& view) { return std::string(name(view.dtype)); })
      .def_prop_ro(
          "shape", [](const View& view) { return view.array.attr("shape"); },
          nb::sig("def shape(self) -> tuple[int, ...]"))
      .def("__repr__", [](const View& view) {
        TensorView stored;
        import_array(view.array, "array", stored);
        return "deepgemm.view(" + describe(stored) + ", \"" + std::string(name(view.dtype)) + "\")";
      });
  module.def("inspect", &inspect, "array"_a.none(),
             nb::sig("def inspect(array: object) -> dict[str, typing.Any]"),
             "How an array is read: pointer, dtype, device, shape, strides (elements), read_only.");
  module.def("import_five", &import_five, "a"_a.none(), "b"_a.none(), "c"_a.none(), "d"_a.none(),
             "e"_a.none(),
             nb::sig("def import_five(a: object, b: object, c: object, d: object, e: object) -> "
                     "None"),
             "Imports five arrays and drops them: what `deepgemm bench` times.");
}

}  // namespace deepgemm::bindings
