// deepgemm._ext.grouped_gemm, masked_gemm and k_grouped_gemm.
#include <optional>
#include <string>
#include <utility>

#include "bindings/arguments.hpp"
#include "bindings/bind.hpp"
#include "bindings/errors.hpp"
#include "bindings/scalars.hpp"
#include "bindings/tensor_output.hpp"
#include "deepgemm/grouped.hpp"

namespace deepgemm::bindings {
namespace {

using namespace nb::literals;

// Whose rows are whose: exactly one of four forms is given.
struct GroupVector {
  Array array;
  GroupForm form = GroupForm::sizes;
};

GroupVector import_groups(nb::handle sizes, nb::handle offsets, nb::handle ends,
                          nb::handle labels) {
  const std::pair<const char*, nb::handle> forms[] = {
      {"group_sizes", sizes}, {"group_offsets", offsets}, {"group_ends", ends}, {"labels", labels}};
  constexpr const char* every = "one of group_sizes, group_offsets, group_ends and labels";
  int chosen = -1;
  for (int i = 0; i < 4; ++i) {
    if (forms[i].second.is_none()) continue;
    if (chosen >= 0) {
      throw ValueError(complaint(forms[i].first,
                                 std::string("an argument beside ") + forms[chosen].first, every,
                                 "each says whose rows are whose"));
    }
    chosen = i;
  }
  if (chosen < 0) throw ValueError(complaint("group_sizes", "None", every));
  return {import_array(forms[chosen].second, forms[chosen].first), static_cast<GroupForm>(chosen)};
}

// What the three operations take alike, imported; keeps the arrays alive beside the views.
struct Operands {
  Operand a, b;
  std::optional<Array> out, c, bias;
  float alpha = 1;
  DType out_dtype = DType::bfloat16;
};

struct OperandHandles {
  nb::handle a, b, out, c, bias, alpha;
};

std::optional<TensorView> view_of(const std::optional<Array>& array) {
  if (!array) return std::nullopt;
  return array->view;
}

// Ranks, which tell the extents of a new out; everything else is checked by the operation.
Operands import_operands(const OperandHandles& handles) {
  Operands operands;
  operands.a = import_operand(handles.a, "a", "sfa");
  operands.b = import_operand(handles.b, "b", "sfb");
  if (!handles.out.is_none()) operands.out = import_output(handles.out, "out");
  if (!handles.c.is_none()) operands.c = import_array(handles.c, "c");
  if (!handles.bias.is_none()) operands.bias = import_array(handles.bias, "bias");
  const double alpha = parse_number(handles.alpha, "alpha");
  operands.alpha =
      to_float(alpha * operands.a.factor.value_or(1) * operands.b.factor.value_or(1), "alpha");
  return operands;
}

CallOptions options_of(const Operands& operands, nb::handle stream, nb::handle accumulate_in_f64) {
  CallOptions options = call_options(operands.a.values.view.device);
  options.stream = find_stream(stream, operands.a.values);
  options.accumulate_in_f64 = parse_flag(accumulate_in_f64, "accumulate_in_f64");
  return options;
}

// Allocates out if there is none, computes, and hands it back.
template <class Args>
nb::object run(Args& args, void (*operation)(const Args&, const CallOptions&), Operands& operands,
               nb::handle out, std::initializer_list<std::int64_t> shape, nb::handle policy,
               CallOptions options) {
  const std::optional<Policy> chosen = parse_policy(policy);
  if (chosen) options.policy = &*chosen;
  std::optional<Output> made;
  if (operands.out) {
    args.out = operands.out->view;
  } else {
    made = allocate_like(operands.a.values, operands.out_dtype, shape);
    args.out = made->array.view;
  }
  {
    const nb::gil_scoped_release released;
    operation(args, options);
  }
  return made ? finish(*made, operands.a.values, options.stream) : nb::borrow(out);
}

void set_row_groups(RowGroupArgs& args, Operands& operands, nb::handle activation,
                    nb::handle layout, nb::handle granularity, nb::handle out_dtype, int a_rank,
                    const char* a_shape) {
  args.layout = parse_layout(layout);
  const bool b_t = b_is_k_by_n(args.layout);
  require_rank_of(operands.a.values.view, "a", a_rank, a_shape);
  require_rank_of(operands.b.values.view, "b", 3, b_t ? "[G, K, N]" : "[G, N, K]");
  turn_granularities(args.layout, operands.a, operands.b);
  apply_granularity(granularity, operands.a, operands.b);
  args.a = operands.a.scaled_view();
  args.b = operands.b.scaled_view();
  args.c = view_of(operands.c);
  args.bias = view_of(operands.bias);
  args.activation = parse_activation(activation);
  args.alpha = operands.alpha;
  operands.out_dtype =
      resolve_out_dtype(operands.out, out_dtype, default_out_dtype(args.a.values.dtype));
}

std::int64_t columns_of(const RowGroupArgs& args) {
  return args.b.values.shape[b_is_k_by_n(args.layout) ? 2 : 1];
}

nb::object grouped_binding(nb::handle a, nb::handle b, nb::handle group_sizes, nb::handle out,
                           nb::handle group_offsets, nb::handle group_ends, nb::handle alignment,
                           nb::handle labels, nb::handle c, nb::handle bias, nb::handle activation,
                           nb::handle alpha, nb::handle out_dtype, nb::handle layout,
                           nb::handle granularity, nb::handle policy, nb::handle stream,
                           nb::handle accumulate_in_f64) {
  Operands operands = import_operands({a, b, out, c, bias, alpha});
  const GroupVector groups = import_groups(group_sizes, group_offsets, group_ends, labels);
  GroupedArgs args;
  set_row_groups(args, operands, activation, layout, granularity, out_dtype, 2, "[M, K]");
  args.groups = groups.array.view;
  args.form = groups.form;
  args.alignment = parse_integer(alignment, "alignment");
  return run(args, grouped_gemm, operands, out, {args.a.values.shape[0], columns_of(args)}, policy,
             options_of(operands, stream, accumulate_in_f64));
}

nb::object masked_binding(nb::handle a, nb::handle b, nb::handle rows, nb::handle out,
                          nb::handle expected_rows, nb::handle c, nb::handle bias,
                          nb::handle activation, nb::handle alpha, nb::handle out_dtype,
                          nb::handle layout, nb::handle granularity, nb::handle policy,
                          nb::handle stream, nb::handle accumulate_in_f64) {
  Operands operands = import_operands({a, b, out, c, bias, alpha});
  const Array counts = import_array(rows, "rows");
  MaskedArgs args;
  set_row_groups(args, operands, activation, layout, granularity, out_dtype, 3, "[G, Mmax, K]");
  args.rows = counts.view;
  if (!expected_rows.is_none()) args.expected_rows = parse_integer(expected_rows, "expected_rows");
  const auto& shape = args.a.values.shape;
  return run(args, masked_gemm, operands, out, {shape[0], shape[1], columns_of(args)}, policy,
             options_of(operands, stream, accumulate_in_f64));
}

nb::object k_grouped_binding(nb::handle a, nb::handle b, nb::handle k_sizes, nb::handle out,
                             nb::handle c, nb::handle alpha, nb::handle out_dtype,
                             nb::handle layout, nb::handle policy, nb::handle stream,
                             nb::handle accumulate_in_f64) {
  Operands operands = import_operands({a, b, out, c, nb::none(), alpha});
  const Array sizes = import_array(k_sizes, "k_sizes");
  KGroupedArgs args;
  args.layout = parse_layout(layout);
  const bool a_t = a_is_k_by_m(args.layout), b_t = b_is_k_by_n(args.layout);
  require_rank_of(operands.a.values.view, "a", 2, a_t ? "[K, M]" : "[M, K]");
  require_rank_of(operands.b.values.view, "b", 2, b_t ? "[K, N]" : "[N, K]");
  require_rank_of(sizes.view, "k_sizes", 1, "[G]");
  turn_granularities(args.layout, operands.a, operands.b);
  args.a = operands.a.scaled_view();
  args.b = operands.b.scaled_view();
  args.c = view_of(operands.c);
  args.alpha = operands.alpha;
  args.k_sizes = sizes.view;
  operands.out_dtype = resolve_out_dtype(operands.out, out_dtype, DType::float32);
  const std::int64_t m = args.a.values.shape[a_t ? 1 : 0], n = args.b.values.shape[b_t ? 1 : 0];
  return run(args, k_grouped_gemm, operands, out, {sizes.view.shape[0], m, n}, policy,
             options_of(operands, stream, accumulate_in_f64));
}

}  // namespace

void bind_grouped(nb::module_& module) {
  module.def("grouped_gemm", &grouped_binding, "a"_a.none(), "b"_a.none(), "group_sizes"_a.none(),
             "out"_a.none(), "group_offsets"_a.none(), "group_ends"_a.none(), "alignment"_a.none(),
             "labels"_a.none(), "c"_a.none(), "bias"_a.none(), "activation"_a.none(),
             "alpha"_a.none(), "out_dtype"_a.none(), "layout"_a.none(), "granularity"_a.none(),
             "policy"_a.none(), "stream"_a.none(), "accumulate_in_f64"_a = false,
             nb::sig("def grouped_gemm(a: object, b: object, group_sizes: object, out: object, "
                     "group_offsets: object, group_ends: object, alignment: int, labels: object, "
                     "c: object, bias: object, activation: object, alpha: float, out_dtype: "
                     "object, layout: object, granularity: object, policy: object, stream: "
                     "object, accumulate_in_f64: bool = False) -> typing.Any"),
             "See deepgemm.grouped_gemm, which gives the arguments their defaults.");
  module.def("masked_gemm", &masked_binding, "a"_a.none(), "b"_a.none(), "rows"_a.none(),
             "out"_a.none(), "expected_rows"_a.none(), "c"_a.none(), "bias"_a.none(),
             "activation"_a.none(), "alpha"_a.none(), "out_dtype"_a.none(), "layout"_a.none(),
             "granularity"_a.none(), "policy"_a.none(), "stream"_a.none(),
             "accumulate_in_f64"_a = false,
             nb::sig("def masked_gemm(a: object, b: object, rows: object, out: object, "
                     "expected_rows: object, c: object, bias: object, activation: object, alpha: "
                     "float, out_dtype: object, layout: object, granularity: object, policy: "
                     "object, stream: object, accumulate_in_f64: bool = False) -> typing.Any"),
             "See deepgemm.masked_gemm, which gives the arguments their defaults.");
  module.def("k_grouped_gemm", &k_grouped_binding, "a"_a.none(), "b"_a.none(), "k_sizes"_a.none(),
             "out"_a.none(), "c"_a.none(), "alpha"_a.none(), "out_dtype"_a.none(),
             "layout"_a.none(), "policy"_a.none(), "stream"_a.none(), "accumulate_in_f64"_a = false,
             nb::sig("def k_grouped_gemm(a: object, b: object, k_sizes: object, out: object, c: "
                     "object, alpha: float, out_dtype: object, layout: object, policy: object, "
                     "stream: object, accumulate_in_f64: bool = False) -> typing.Any"),
             "See deepgemm.k_grouped_gemm, which gives the arguments their defaults.");
}

}  // namespace deepgemm::bindings
