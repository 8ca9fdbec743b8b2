#include "bindings/grouped_arguments.hpp"

#include <string>
#include <utility>

#include "bindings/errors.hpp"
#include "bindings/scalars.hpp"

namespace deepgemm::bindings {
namespace {

struct OperandHandles {
  nb::handle a, b, out, c, bias, alpha;
};

// What the three operations take alike; alpha with the factors that are numbers folded in.
template <class Args>
void import_operands(const OperandHandles& handles, GroupedCall<Args>& call) {
  call.a = import_operand(handles.a, "a", "sfa");
  call.b = import_operand(handles.b, "b", "sfb");
  if (!handles.out.is_none()) call.out = import_output(handles.out, "out");
  if (!handles.c.is_none()) call.c = import_array(handles.c, "c");
  if (!handles.bias.is_none()) call.bias = import_array(handles.bias, "bias");
  call.args.alpha = import_alpha(handles.alpha, call.a, call.b);
  if (call.out) call.args.out = call.out->view;
  if (call.c) call.args.c = call.c->view;
}

// Ranks, which tell the extents of a new out; everything else is checked by the operation.
template <class Args, class Arguments>
void import_row_groups(const Arguments& arguments, GroupedCall<Args>& call, int a_rank,
                       const char* a_shape) {
  const auto& at = arguments.at;
  Args& args = call.args;
  args.layout = parse_layout(at[Arguments::layout]);
  const bool b_t = b_is_k_by_n(args.layout);
  require_rank_of(call.a.values.view, "a", a_rank, a_shape);
  require_rank_of(call.b.values.view, "b", 3, b_t ? "[G, K, N]" : "[G, N, K]");
  turn_granularities(args.layout, call.a, call.b);
  apply_granularity(at[Arguments::granularity], call.a, call.b);
  args.a = call.a.scaled_view();
  args.b = call.b.scaled_view();
  if (call.bias) args.bias = call.bias->view;
  args.activation = parse_activation(at[Arguments::activation]);
  call.out_dtype =
      resolve_out_dtype(call.out, at[Arguments::out_dtype], default_out_dtype(args.a.values.dtype));
  const TensorView &a_view = args.a.values, &b_view = args.b.values;
  call.shape.assign(a_view.shape.begin(), a_view.shape.begin() + a_rank - 1);
  call.shape.push_back(b_view.shape[b_t ? 2 : 1]);
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

}  // namespace

GroupedArguments::GroupedArguments(PyObject* const* args, std::size_t count, PyObject* names) {
  static const auto* const parameters = new Parameters("grouped_gemm", 2, 4,
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
                                                        {"layout", PyUnicode_FromString("nt")},
                                                        {"granularity"},
                                                        {"policy"},
                                                        {"stream"},
                                                        {"accumulate_in_f64", Py_False}});
  parameters->read(args, count, names, at);
}

GroupedArguments::Index GroupedArguments::vector() const { return forms[form_of(*this)].second; }

MaskedArguments::MaskedArguments(PyObject* const* args, std::size_t count, PyObject* names) {
  static const auto* const parameters = new Parameters("masked_gemm", 3, 4,
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
                                                        {"layout", PyUnicode_FromString("nt")},
                                                        {"granularity"},
                                                        {"policy"},
                                                        {"stream"},
                                                        {"accumulate_in_f64", Py_False}});
  parameters->read(args, count, names, at);
}

KGroupedArguments::KGroupedArguments(PyObject* const* args, std::size_t count, PyObject* names) {
  static const auto* const parameters = new Parameters("k_grouped_gemm", 3, 4,
                                                       {{"a"},
                                                        {"b"},
                                                        {"k_sizes"},
                                                        {"out"},
                                                        {"c"},
                                                        {"alpha", PyFloat_FromDouble(1)},
                                                        {"out_dtype"},
                                                        {"layout", PyUnicode_FromString("nt")},
                                                        {"policy"},
                                                        {"stream"},
                                                        {"accumulate_in_f64", Py_False}});
  parameters->read(args, count, names, at);
}

GroupedCall<GroupedArgs> import_call(const GroupedArguments& arguments) {
  using enum GroupedArguments::Index;
  const auto& at = arguments.at;
  GroupedCall<GroupedArgs> call;
  import_operands({at[a], at[b], at[out], at[c], at[bias], at[alpha]}, call);
  const int form = form_of(arguments);
  call.groups = import_array(at[forms[form].second], forms[form].first);
  import_row_groups(arguments, call, 2, "[M, K]");
  call.args.groups = call.groups.view;
  call.args.form = static_cast<GroupForm>(form);
  call.args.alignment = parse_integer(at[alignment], "alignment");
  return call;
}

GroupedCall<MaskedArgs> import_call(const MaskedArguments& arguments) {
  using enum MaskedArguments::Index;
  const auto& at = arguments.at;
  GroupedCall<MaskedArgs> call;
  import_operands({at[a], at[b], at[out], at[c], at[bias], at[alpha]}, call);
  call.groups = import_array(at[rows], "rows");
  import_row_groups(arguments, call, 3, "[G, Mmax, K]");
  call.args.rows = call.groups.view;
  if (!at[expected_rows].is_none())
    call.args.expected_rows = parse_integer(at[expected_rows], "expected_rows");
  return call;
}

GroupedCall<KGroupedArgs> import_call(const KGroupedArguments& arguments) {
  using enum KGroupedArguments::Index;
  const auto& at = arguments.at;
  GroupedCall<KGroupedArgs> call;
  KGroupedArgs& args = call.args;
  import_operands({at[a], at[b], at[out], at[c], nb::none(), at[alpha]}, call);
  call.groups = import_array(at[k_sizes], "k_sizes");
  args.layout = parse_layout(at[layout]);
  const bool a_t = a_is_k_by_m(args.layout), b_t = b_is_k_by_n(args.layout);
  require_rank_of(call.a.values.view, "a", 2, a_t ? "[K, M]" : "[M, K]");
  require_rank_of(call.b.values.view, "b", 2, b_t ? "[K, N]" : "[N, K]");
  require_rank_of(call.groups.view, "k_sizes", 1, "[G]");
  turn_granularities(args.layout, call.a, call.b);
  args.a = call.a.scaled_view();
  args.b = call.b.scaled_view();
  args.k_sizes = call.groups.view;
  call.out_dtype = resolve_out_dtype(call.out, at[out_dtype], DType::float32);
  call.shape = {call.groups.view.shape[0], args.a.values.shape[a_t ? 1 : 0],
                args.b.values.shape[b_t ? 1 : 0]};
  return call;
}

}  // namespace deepgemm::bindings
