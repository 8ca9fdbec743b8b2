#include "bindings/grouped_arguments.hpp"

#include <string>
#include <utility>

#include "bindings/errors.hpp"
#include "bindings/scalars.hpp"

namespace deepgemm::bindings {
namespace {

// Ranks, which tell the extents of a new out; everything else is checked by the operation.
template <class Args>
void set_row_groups(const ProductOptions& options, GroupedCall<Args>& call, int a_rank,
                    const char* a_shape) {
  Args& args = call.args;
  const bool b_t = b_is_k_by_n(args.layout);
  const TensorView &a = args.a.values, &b = args.b.values;
  require_rank_of(a, "a", a_rank, a_shape);
  require_rank_of(b, "b", 3, b_t ? "[G, K, N]" : "[G, N, K]");
  turn_granularities(args.layout, args.a, args.b);
  apply_granularities(options.granularity, args.a, args.b);
  args.activation = options.activation;
  call.out_dtype =
      resolve_out_dtype(call.out, args.out, options.out_dtype, default_out_dtype(a.dtype));
  call.shape.assign(a.shape.begin(), a.shape.begin() + a_rank - 1);
  call.shape.push_back(b.shape[b_t ? 2 : 1]);
}

constexpr std::pair<const char*, GroupedArguments::Index> forms[] = {
    {"group_sizes", GroupedArguments::group_sizes},
    {"group_offsets", GroupedArguments::group_offsets},
    {"group_ends", GroupedArguments::group_ends},
    {"labels", GroupedArguments::labels}};

// The place among `forms` of the one that is given.
int form_of(const GroupedArguments& arguments) {
  constexpr const char* every = "one of group_sizes, group_offsets, group_ends and labels";
  int chosen = -1;
  for (int i = 0; i < 4; ++i) {
    if (arguments.at[forms[i].second].is_none()) continue;
    if (chosen >= 0) {
      throw ValueError(complaint(forms[i].first,
                                 std::string("an argument beside ") + forms[chosen].first, every,
                                 "each says whose rows are whose"));
    }
    chosen = i;
  }
  if (chosen < 0) throw ValueError(complaint("group_sizes", "None", every));
  return chosen;
}

// What each operation has of its own.
void complete(const ArrayHandles& arrays, const ProductOptions& options,
              GroupedCall<GroupedArgs>& call) {
  const char* name = forms[static_cast<std::size_t>(options.form)].first;
  call.groups = import_array(arrays.groups, name, call.args.groups);
  call.bias = import_optional(arrays.bias, "bias", call.args.bias);
  set_row_groups(options, call, 2, "[M, K]");
  call.args.form = options.form;
  call.args.alignment = options.alignment;
}

void complete(const ArrayHandles& arrays, const ProductOptions& options,
              GroupedCall<MaskedArgs>& call) {
  call.groups = import_array(arrays.groups, "rows", call.args.rows);
  call.bias = import_optional(arrays.bias, "bias", call.args.bias);
  set_row_groups(options, call, 3, "[G, Mmax, K]");
  call.args.expected_rows = options.expected_rows;
}

void complete(const ArrayHandles& arrays, const ProductOptions& options,
              GroupedCall<KGroupedArgs>& call) {
  KGroupedArgs& args = call.args;
  call.groups = import_array(arrays.groups, "k_sizes", args.k_sizes);
  const bool a_t = a_is_k_by_m(args.layout), b_t = b_is_k_by_n(args.layout);
  require_rank_of(args.a.values, "a", 2, a_t ? "[K, M]" : "[M, K]");
  require_rank_of(args.b.values, "b", 2, b_t ? "[K, N]" : "[N, K]");
  require_rank_of(args.k_sizes, "k_sizes", 1, "[G]");
  turn_granularities(args.layout, args.a, args.b);
  call.out_dtype = resolve_out_dtype(call.out, args.out, options.out_dtype, DType::float32);
  call.shape = {args.k_sizes.shape[0], args.a.values.shape[a_t ? 1 : 0],
                args.b.values.shape[b_t ? 1 : 0]};
}

}  // namespace

GroupedArguments::GroupedArguments(PyObject* const* args, std::size_t count, PyObject* names) {
  static const auto* const parameters =
      new Parameters("grouped_gemm", 2, 4,
                     {{"a"},
                      {"b"},
                      {"group_sizes"},
                      {"out"},
                      {"group_offsets"},
                      {"group_ends"},
                      {"alignment", PyLong_FromLong(1)},
                      {"labels"},
                      {"c"},
                      {"bias"},
                      {"activation"},
                      {"alpha", PyFloat_FromDouble(1)},
                      {"out_dtype"},
                      {"layout", PyUnicode_InternFromString("nt")},
                      {"granularity"},
                      {"policy"},
                      {"stream"},
                      {"accumulate_in_f64", Py_False}});
  parameters->read(args, count, names, at);
}

MaskedArguments::MaskedArguments(PyObject* const* args, std::size_t count, PyObject* names) {
  static const auto* const parameters =
      new Parameters("masked_gemm", 3, 4,
                     {{"a"},
                      {"b"},
                      {"rows"},
                      {"out"},
                      {"expected_rows"},
                      {"c"},
                      {"bias"},
                      {"activation"},
                      {"alpha", PyFloat_FromDouble(1)},
                      {"out_dtype"},
                      {"layout", PyUnicode_InternFromString("nt")},
                      {"granularity"},
                      {"policy"},
                      {"stream"},
                      {"accumulate_in_f64", Py_False}});
  parameters->read(args, count, names, at);
}

KGroupedArguments::KGroupedArguments(PyObject* const* args, std::size_t count, PyObject* names) {
  static const auto* const parameters =
      new Parameters("k_grouped_gemm", 3, 4,
                     {{"a"},
                      {"b"},
                      {"k_sizes"},
                      {"out"},
                      {"c"},
                      {"alpha", PyFloat_FromDouble(1)},
                      {"out_dtype"},
                      {"layout", PyUnicode_InternFromString("nt")},
                      {"policy"},
                      {"stream"},
                      {"accumulate_in_f64", Py_False}});
  parameters->read(args, count, names, at);
}

ArrayHandles GroupedArguments::arrays() const {
  return {at[a], at[b], at[out], at[c], at[bias], at[forms[form_of(*this)].second]};
}

ArrayHandles MaskedArguments::arrays() const {
  return {at[a], at[b], at[out], at[c], at[bias], at[rows]};
}

ArrayHandles KGroupedArguments::arrays() const {
  return {at[a], at[b], at[out], at[c], Py_None, at[k_sizes]};
}

ProductOptions GroupedArguments::options() const {
  ProductOptions options = parse_options(
      {at[layout], at[alpha], at[out_dtype], at[activation], at[granularity], Py_None});
  options.form = static_cast<GroupForm>(form_of(*this));
  options.alignment = parse_integer(at[alignment], "alignment");
  return options;
}

ProductOptions MaskedArguments::options() const {
  ProductOptions options = parse_options(
      {at[layout], at[alpha], at[out_dtype], at[activation], at[granularity], Py_None});
  if (!at[expected_rows].is_none()) {
    options.expected_rows = parse_integer(at[expected_rows], "expected_rows");
  }
  return options;
}

ProductOptions KGroupedArguments::options() const {
  return parse_options({at[layout], at[alpha], at[out_dtype]});
}

template <class Args>
GroupedCall<Args>::GroupedCall(const ArrayHandles& arrays, const ProductOptions& options)
    : a(import_operand(arrays.a, "a", "sfa", args.a)),
      b(import_operand(arrays.b, "b", "sfb", args.b)),
      out(import_optional_output(arrays.out, "out", args.out)),
      c(import_optional(arrays.c, "c", args.c)) {
  args.layout = options.layout;
  args.alpha = fold_factors(options.alpha, a, b);
  complete(arrays, options, *this);
}

template struct GroupedCall<GroupedArgs>;
template struct GroupedCall<MaskedArgs>;
template struct GroupedCall<KGroupedArgs>;

}  // namespace deepgemm::bindings
