// deepgemm._ext.quantize and dequantize.
#include <optional>
#include <string>

#include "bindings/arguments.hpp"
#include "bindings/bind.hpp"
#include "bindings/device_array.hpp"
#include "bindings/errors.hpp"
#include "bindings/gil.hpp"
#include "bindings/scalars.hpp"
#include "bindings/tensor_output.hpp"
#include "deepgemm/quantize.hpp"

namespace deepgemm::bindings {
namespace {

using namespace nb::literals;

// The fast layout is for factors that lie along rows.
bool wants_fast_scales(const Granularity& granularity, const ScaleExtents& extents) {
  return granularity.rows == 1 && extents.k > 0;
}

// [rows, K], or a stack of such: [G, rows, K].
void require_matrices(const TensorView& view, const char* operand) {
  if (view.rank != 3) require_rank_of(view, operand, 2, "[rows, K], or 3, [G, rows, K]");
}

// The factors that quantising `source` makes.
Output allocate_scales(const Array& source, const TensorView& view, const Granularity& granularity,
                       const ScaleExtents& extents) {
  const bool fast = wants_fast_scales(granularity, extents);
  if (view.rank == 2) {
    return fast ? allocate_fast_scales(source, DType::float32, extents.rows, extents.k)
                : allocate_like(source, DType::float32, {extents.rows, extents.k});
  }
  return fast ? allocate_fast_scales(source, DType::float32, view.shape[0], extents.rows, extents.k)
              : allocate_like(source, DType::float32, {view.shape[0], extents.rows, extents.k});
}

// A new array of the shape of `like`, whose view it is.
Output allocate_same(const Array& like, const TensorView& view, DType dtype) {
  const auto& shape = view.shape;
  return view.rank == 2 ? allocate_like(like, dtype, {shape[0], shape[1]})
                        : allocate_like(like, dtype, {shape[0], shape[1], shape[2]});
}

nb::tuple granularity_tuple(const Granularity& granularity) {
  const auto part = [](std::int64_t value) -> nb::object {
    if (value == Granularity::whole) return nb::none();
    return nb::int_(value);
  };
  return nb::make_tuple(part(granularity.rows), part(granularity.k));
}

nb::tuple quantize_binding(nb::handle x, nb::handle granularity, nb::handle dtype,
                           nb::handle power_of_two, nb::handle amax_floor, nb::handle stream) {
  TensorView view;
  const Array source = import_array(x, "x", view);
  require_matrices(view, "x");
  QuantizeOptions options;
  options.granularity =
      granularity.is_none() ? per_tensor : parse_granularity(granularity, "granularity");
  options.power_of_two = parse_flag(power_of_two, "power_of_two");
  options.amax_floor = to_float(parse_number(amax_floor, "amax_floor"), "amax_floor");
  const DType target = parse_dtype(dtype, "dtype");
  if (!is_float8(target)) {
    throw TypeError(complaint("dtype", std::string(name(target)), "float8_e4m3fn or float8_e5m2"));
  }
  const std::int64_t rows = view.shape[view.rank - 2], k = view.shape[view.rank - 1];
  options.granularity = canonical(options.granularity, rows, k);
  const ScaleExtents extents = scale_extents(options.granularity, rows, k);
  Output values = allocate_same(source, view, target);
  Output sf = allocate_scales(source, view, options.granularity, extents);
  CallOptions call = call_options(view.device);
  call.stream = find_stream(stream, source);
  {
    const GilReleased released;
    quantize(view, values.view, sf.view, options, call);
  }
  return nb::make_tuple(finish(values, source, call.stream), finish(sf, source, call.stream),
                        granularity_tuple(options.granularity));
}

// A number as sf, in memory where the values are. The memory is freed after the call: on a GPU the
// driver then waits for the kernel that reads it.
class Factor {
 public:
  Factor(const TensorView& values, double factor)
      : values_(values), array_({}, DType::float32, values.device) {
    const float number = to_float(factor, "sf");
    const GilReleased released;
    array_.copy_from(&number);
  }
  ScaledView scaled_view() const { return {values_, array_.view(), per_tensor}; }

 private:
  TensorView values_;
  DeviceArray array_;
};

nb::object dequantize_binding(nb::handle q, nb::handle out, nb::handle out_dtype,
                              nb::handle granularity, nb::handle stream) {
  ScaledView scaled;
  const Operand operand = import_operand(q, "values", "sf", scaled);
  std::optional<Factor> factor;
  if (!scaled.sf) {
    if (!operand.sf.number) {
      throw TypeError(
          complaint("q", "values without scale factors", "(values, sf), as quantize returns"));
    }
    factor.emplace(scaled.values, *operand.sf.number);
  }
  if (!granularity.is_none()) {
    scaled.granularity = parse_granularity(granularity, "granularity");
  }
  require_matrices(scaled.values, "values");
  TensorView result;
  Array given;
  std::optional<Output> made;
  if (out.is_none()) {
    const DType target = out_dtype.is_none() ? DType::float32 : parse_dtype(out_dtype, "out_dtype");
    made = allocate_same(operand.values, scaled.values, target);
    result = made->view;
  } else {
    given = import_output(out, "out", result);
  }
  CallOptions call = call_options(scaled.values.device);
  call.stream = find_stream(stream, operand.values);
  {
    const GilReleased released;
    dequantize(factor ? factor->scaled_view() : scaled, result, call);
  }
  return made ? finish(*made, operand.values, call.stream) : nb::borrow(out);
}

}  // namespace

void bind_quantize(nb::module_& module) {
  module.def(
      "quantize", &quantize_binding, "x"_a.none(), "granularity"_a.none(), "dtype"_a.none(),
      "power_of_two"_a.none(), "amax_floor"_a.none(), "stream"_a.none(),
      nb::sig(
          "def quantize(x: object, granularity: object, dtype: object, power_of_two: "
          "bool, amax_floor: float, stream: object) -> tuple[typing.Any, typing.Any, tuple[int | "
          "None, int | None]]"),
      "(values, sf, granularity); see deepgemm.quantize.");
  module.def("dequantize", &dequantize_binding, "q"_a.none(), "out"_a.none(), "out_dtype"_a.none(),
             "granularity"_a.none(), "stream"_a.none(),
             nb::sig("def dequantize(q: object, out: object, out_dtype: object, granularity: "
                     "object, stream: object) -> typing.Any"),
             "See deepgemm.dequantize.");
}

}  // namespace deepgemm::bindings
