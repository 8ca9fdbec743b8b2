#include "bindings/arguments.hpp"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "bindings/errors.hpp"
#include "bindings/gemm_arguments.hpp"
#include "bindings/scalars.hpp"

namespace deepgemm::bindings {
namespace {

[[noreturn, gnu::noinline]] void refuse_granularity(nb::handle value, const char* argument,
                                                    const char* need) {
  throw ValueError(complaint(argument, nb::cast<std::string>(nb::repr(value)), need));
}

std::int64_t granularity_part(nb::handle value, const char* argument) {
  if (value.is_none()) return Granularity::whole;
  if (PyLong_CheckExact(value.ptr()) || PyIndex_Check(value.ptr())) {
    const std::int64_t part = parse_integer(value, argument);
    if (part >= 0) return part;
  }
  refuse_granularity(value, argument, "a positive integer, or None for the whole extent");
}

bool is_sequence(nb::handle object) {
  return PyTuple_Check(object.ptr()) || PyList_Check(object.ptr());
}

// The items, held: Python code that runs while one is read may empty the caller's list.
nb::tuple items_of(nb::handle sequence) {
  // A named tuple too, which PySequence_Tuple() would copy.
  if (PyTuple_Check(sequence.ptr())) return nb::borrow<nb::tuple>(sequence);
  PyObject* items = PySequence_Tuple(sequence.ptr());
  if (items == nullptr) nb::raise_python_error();
  return nb::steal<nb::tuple>(items);
}

// Borrowed, and there.
nb::handle item(const nb::tuple& items, Py_ssize_t i) { return PyTuple_GET_ITEM(items.ptr(), i); }

// A pair of memory's (rows, columns) as (rows, k) of an operand that lies as [K, rows].
void turn(std::optional<Granularity>& granularity) {
  if (granularity) std::swap(granularity->rows, granularity->k);
}

// `known`: all the words of an Enum. Those of a program's text are interned, so that the first pass
// nearly always finds them.
template <class Enum, std::size_t count>
Enum parse_word(nb::handle word, const char* argument,
                const std::array<std::pair<const char*, Enum>, count>& known) {
  static const std::array<PyObject*, count> interned = [&] {
    std::array<PyObject*, count> objects{};
    for (std::size_t i = 0; i < count; ++i) objects[i] = PyUnicode_InternFromString(known[i].first);
    return objects;
  }();
  for (std::size_t i = 0; i < count; ++i) {
    if (interned[i] == word.ptr()) return known[i].second;
  }
  std::string found;
  if (PyUnicode_Check(word.ptr())) {
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(word.ptr(), &length);
    if (text == nullptr) nb::raise_python_error();
    const std::string_view view(text, static_cast<std::size_t>(length));
    for (const auto& [name, value] : known) {
      if (name == view) return value;
    }
    found = "\"" + std::string(view) + "\"";
  } else {
    found = nb::cast<std::string>(nb::repr(word));
  }
  std::string need;
  for (const auto& entry : known) {
    need.append(need.empty() ? "\"" : ", \"").append(entry.first).append("\"");
  }
  throw ValueError(complaint(argument, found, "one of " + need));
}

// Of (values, sf) or (values, sf, granularity).
Factors import_factors(const nb::tuple& items, const char* name, ScaledView& view) {
  const nb::handle sf = item(items, 1);
  if (sf.is_none()) return {};
  const bool is_array = Py_TYPE(sf.ptr()) == Py_TYPE(item(items, 0).ptr());  // the usual case
  if (!is_array && is_number(sf)) return {{}, parse_number(sf, name)};
  return {import_array(sf, name, view.sf.emplace()), {}};
}

[[noreturn, gnu::noinline]] void refuse_size(std::size_t size, const char* name) {
  throw TypeError(complaint(name, "a sequence of " + std::to_string(size) + " items",
                            "an array, (values, sf) or (values, sf, granularity)"));
}

Operand import_scaled(nb::handle object, const char* name, const char* sf_name, ScaledView& view) {
  const nb::tuple items = items_of(object);
  const std::size_t size = items.size();
  if (size != 2 && size != 3) {
    refuse_size(size, name);
  }
  // Each in its place: none is moved.
  Operand operand{import_array(item(items, 0), name, view.values),
                  import_factors(items, sf_name, view)};
  if (view.sf && size == 3 && !item(items, 2).is_none()) {
    view.granularity = parse_granularity(item(items, 2), "granularity");
  }
  return operand;
}

}  // namespace

Operand import_operand(nb::handle object, const char* name, const char* sf_name, ScaledView& view) {
  if (is_sequence(object)) return import_scaled(object, name, sf_name, view);
  return {import_array(object, name, view.values), {}};
}

Array import_optional(nb::handle object, const char* operand, std::optional<TensorView>& view) {
  return object.is_none() ? Array() : import_array(object, operand, view.emplace());
}

Array import_optional_output(nb::handle object, const char* operand, TensorView& view) {
  return object.is_none() ? Array() : import_output(object, operand, view);
}

float fold_factors(double alpha, const Operand& a, const Operand& b) {
  return to_float(alpha * a.sf.number.value_or(1) * b.sf.number.value_or(1), "alpha");
}

namespace {

[[noreturn, gnu::noinline]] void refuse_rank(const TensorView& view, const char* operand, int rank,
                                             const char* shape) {
  throw ValueError(
      complaint(operand, describe(view), "rank " + std::to_string(rank) + ", " + shape));
}

}  // namespace

void require_rank_of(const TensorView& view, const char* operand, int rank, const char* shape) {
  if (view.rank != rank) refuse_rank(view, operand, rank, shape);
}

Granularity parse_granularity(nb::handle pair, const char* argument) {
  if (!is_sequence(pair) || PySequence_Fast_GET_SIZE(pair.ptr()) != 2) {
    refuse_granularity(pair, argument, "(rows, k)");
  }
  const nb::tuple items = items_of(pair);
  return {granularity_part(item(items, 0), argument), granularity_part(item(items, 1), argument)};
}

Granularities parse_granularities(nb::handle granularity) {
  if (granularity.is_none()) return {};
  const nb::tuple items = is_sequence(granularity) ? items_of(granularity) : nb::tuple();
  const bool each = items.size() == 2 && (is_sequence(items[0]) || is_sequence(items[1]));
  if (!each) {
    const Granularity both = parse_granularity(granularity, "granularity");
    return {both, both};
  }
  Granularities given;
  if (!items[0].is_none()) given.a = parse_granularity(items[0], "granularity of a");
  if (!items[1].is_none()) given.b = parse_granularity(items[1], "granularity of b");
  return given;
}

void apply_granularities(const Granularities& given, ScaledView& a, ScaledView& b) {
  if (given.a && a.sf) a.granularity = given.a;
  if (given.b && b.sf) b.granularity = given.b;
}

void turn_granularities(Layout layout, ScaledView& a, ScaledView& b) {
  if (a_is_k_by_m(layout)) turn(a.granularity);
  if (b_is_k_by_n(layout)) turn(b.granularity);
}

Activation parse_activation(nb::handle activation) {
  static constexpr std::array<std::pair<const char*, Activation>, 5> known{{
      {"none", Activation::none},
      {"relu", Activation::relu},
      {"gelu", Activation::gelu},
      {"gelu_tanh", Activation::gelu_tanh},
      {"silu", Activation::silu},
  }};
  if (activation.is_none()) return Activation::none;
  return parse_word(activation, "activation", known);
}

Layout parse_layout(nb::handle layout) {
  static constexpr std::array<std::pair<const char*, Layout>, 4> known{{
      {"nt", Layout::nt},
      {"nn", Layout::nn},
      {"tn", Layout::tn},
      {"tt", Layout::tt},
  }};
  return parse_word(layout, "layout", known);
}

std::optional<Policy> parse_policy(nb::handle policy) {
  if (policy.is_none()) return std::nullopt;
  if (PyDict_Check(policy.ptr())) {
    return parse_policy(nb::module_::import_("deepgemm._library").attr("as_policy")(policy));
  }
  if (!nb::isinstance<Policy>(policy) || !nb::inst_ready(policy)) {
    throw TypeError(complaint("policy", "an object of type " + type_name_of(policy),
                              "a deepgemm.Policy or a dict of its fields"));
  }
  return nb::cast<const Policy&>(policy, false);
}

DType default_out_dtype(DType a) {
  if (a == DType::float16 || a == DType::float32 || a == DType::float64) {
    return a == DType::float16 ? DType::float16 : DType::float32;
  }
  return DType::bfloat16;
}

namespace {

[[noreturn, gnu::noinline]] void refuse_out_dtype(DType found, DType need) {
  throw TypeError(
      complaint("out", std::string(name(found)), std::string(name(need)), "as out_dtype says"));
}

}  // namespace

DType resolve_out_dtype(const Array& out, const TensorView& view, std::optional<DType> out_dtype,
                        DType fallback) {
  if (!out.given()) return out_dtype.value_or(fallback);
  if (!out_dtype || view.dtype == *out_dtype) return view.dtype;
  refuse_out_dtype(view.dtype, *out_dtype);
}

ProductOptions parse_options(const OptionHandles& handles) {
  ProductOptions options;
  options.layout = parse_layout(handles.layout);
  options.granularity = parse_granularities(handles.granularity);
  options.activation = parse_activation(handles.activation);
  options.alpha = parse_number(handles.alpha, "alpha");
  if (!handles.out_scale.is_none()) {
    options.out_scale = to_float(parse_number(handles.out_scale, "out_scale"), "out_scale");
  }
  if (!handles.out_dtype.is_none()) options.out_dtype = parse_dtype(handles.out_dtype, "out_dtype");
  return options;
}

namespace {

// Ranks alone, which tell the shape of a new out; everything else is checked by the operation.
void require_matrix_or_batch(const TensorView& view, const char* operand, const char* shapes) {
  if (view.rank != 3) require_rank_of(view, operand, 2, shapes);
}

std::int64_t matrices_in(const TensorView& view) { return view.rank == 3 ? view.shape[0] : 1; }

void set_layout(Layout layout, GemmCall& call) {
  const TensorView &a = call.args.a.values, &b = call.args.b.values;
  const bool a_t = a_is_k_by_m(layout), b_t = b_is_k_by_n(layout);
  require_matrix_or_batch(a, "a",
                          a_t ? "[K, M], or rank 3, [B, K, M]" : "[M, K], or rank 3, [B, M, K]");
  require_matrix_or_batch(b, "b",
                          b_t ? "[K, N], or rank 3, [B, K, N]" : "[N, K], or rank 3, [B, N, K]");
  call.args.layout = layout;
  turn_granularities(layout, call.args.a, call.args.b);
}

}  // namespace

GemmCall::GemmCall(const ArrayHandles& arrays, const ProductOptions& options)
    : a(import_operand(arrays.a, "a", "sfa", args.a)),
      b(import_operand(arrays.b, "b", "sfb", args.b)),
      out(import_optional_output(arrays.out, "out", args.out)),
      c(import_optional(arrays.c, "c", args.c)),
      bias(import_optional(arrays.bias, "bias", args.bias)) {
  set_layout(options.layout, *this);
  apply_granularities(options.granularity, args.a, args.b);
  args.activation = options.activation;
  args.alpha = fold_factors(options.alpha, a, b);
  args.out_scale = options.out_scale;
  out_dtype =
      resolve_out_dtype(out, args.out, options.out_dtype, default_out_dtype(args.a.values.dtype));
}

GemmArguments::GemmArguments(PyObject* const* args, std::size_t count, PyObject* names) {
  static const auto* const parameters =
      new Parameters("gemm", 2, 3,
                     {{"a"},
                      {"b"},
                      {"out"},
                      {"c"},
                      {"bias"},
                      {"activation"},
                      {"alpha", PyFloat_FromDouble(1)},
                      {"out_dtype"},
                      {"out_scale"},
                      {"layout", PyUnicode_InternFromString("nt")},
                      {"granularity"},
                      {"policy"},
                      {"stream"},
                      {"accumulate_in_f64", Py_False}});
  parameters->read(args, count, names, at);
}

ArrayHandles GemmArguments::arrays() const { return {at[a], at[b], at[out], at[c], at[bias]}; }

ProductOptions GemmArguments::options() const {
  return parse_options(
      {at[layout], at[alpha], at[out_dtype], at[activation], at[granularity], at[out_scale]});
}

OutExtents extents_of_out(const GemmArgs& args) {
  const TensorView &a = args.a.values, &b = args.b.values;
  return {.batched = a.rank == 3 || b.rank == 3,
          .batch = matrices_in(a) == 1 ? matrices_in(b) : matrices_in(a),
          .m = a.shape[a.rank - (a_is_k_by_m(args.layout) ? 1 : 2)],
          .n = b.shape[b.rank - (b_is_k_by_n(args.layout) ? 1 : 2)]};
}

std::optional<Output> allocate_out(GemmCall& call) {
  if (call.out.given()) return std::nullopt;
  const Array& like = call.a.values;
  const auto [batched, batch, m, n] = extents_of_out(call.args);
  Output output = batched ? allocate_like(like, call.out_dtype, {batch, m, n})
                          : allocate_like(like, call.out_dtype, {m, n});
  call.args.out = output.view;
  return output;
}

}  // namespace deepgemm::bindings
