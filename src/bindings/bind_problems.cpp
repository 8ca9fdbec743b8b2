// Problems as dictionaries of JSON's types, which DEEPGEMM_TRACE writes (src/plan/problem_record)
// and warm-up reads: every array is a dtype, a shape, strides (if not row-major) and its offset
// from a multiple of 16 bytes (if there is one). docs/warmup.md has the form.
#include <cstdint>
#include <optional>
#include <string>

#include "bindings/arguments.hpp"
#include "bindings/bind.hpp"
#include "bindings/errors.hpp"
#include "bindings/gil.hpp"
#include "bindings/reports.hpp"
#include "bindings/scalars.hpp"
#include "deepgemm/runtime.hpp"

namespace deepgemm::bindings {
namespace {

using namespace nb::literals;

// One problem, whose arrays are put where none overlaps another. Nobody reads those addresses.
class Problem {
 public:
  explicit Problem(nb::dict fields) : fields_(std::move(fields)) {}

  bool has(const char* key) const {
    return fields_.contains(key) && !nb::object(fields_[key]).is_none();
  }
  nb::object get(const char* key) const {
    if (!has(key)) throw ValueError(complaint("problem", "none", join_quoted(key), "a key"));
    return fields_[key];
  }
  nb::object get_or_none(const char* key) const { return has(key) ? get(key) : nb::none(); }

  TensorView view(const char* key) { return parse_view(get(key), key); }
  std::optional<TensorView> optional_view(const char* key) {
    if (!has(key)) return std::nullopt;
    return view(key);
  }
  ScaledView operand(const char* key) {
    const nb::object given = get(key);
    ScaledView operand;
    operand.values = parse_view(given, key);
    const auto fields = nb::cast<nb::dict>(given);
    if (!fields.contains("sf")) return operand;
    operand.sf = parse_view(fields["sf"], (std::string(key) + ".sf").c_str());
    if (fields.contains("granularity"))
      operand.granularity = parse_granularity(fields["granularity"], "granularity");
    return operand;
  }

 private:
  static std::string join_quoted(const char* key) { return "\"" + std::string(key) + "\""; }

  TensorView parse_view(nb::handle given, const char* name) {
    if (!PyDict_Check(given.ptr())) {
      throw TypeError(complaint(name, "an object of type " + type_name_of(given),
                                "a dictionary with dtype and shape"));
    }
    const auto fields = nb::borrow<nb::dict>(given);
    for (const char* key : {"dtype", "shape"}) {
      if (!fields.contains(key))
        throw ValueError(complaint(name, "no " + std::string(key), "dtype and shape"));
    }
    TensorView result;
    result.device = {DeviceKind::cuda, 0};
    result.dtype = parse_dtype(fields["dtype"], name);
    result.rank = parse_extents(fields["shape"], name, result.shape);
    std::int64_t step = 1;
    for (int i = result.rank - 1; i >= 0; --i) {
      result.strides[i] = step;
      step *= result.shape[i] > 0 ? result.shape[i] : 1;
    }
    if (fields.contains("strides") &&
        parse_extents(fields["strides"], name, result.strides) != result.rank) {
      throw ValueError(complaint(name, "strides of another rank", "a stride for each extent"));
    }
    std::int64_t offset = 0;
    if (fields.contains("offset")) offset = parse_integer(fields["offset"], name);
    constexpr int bits_of_an_array = 48;
    const std::uintptr_t place = static_cast<std::uintptr_t>(++arrays_) << bits_of_an_array;
    result.data = reinterpret_cast<void*>(place + static_cast<std::uintptr_t>(offset & 15));
    return result;
  }

  static int parse_extents(nb::handle given, const char* name,
                           std::array<std::int64_t, max_rank>& extents) {
    const nb::tuple items =
        PyList_Check(given.ptr()) || PyTuple_Check(given.ptr()) ? nb::tuple(given) : nb::tuple();
    if (items.empty() || items.size() > static_cast<std::size_t>(max_rank)) {
      throw ValueError(
          complaint(name, nb::cast<std::string>(nb::repr(given)), "a list of 1 to 4 integers"));
    }
    constexpr std::int64_t most = std::int64_t{1}
                                  << 44;  // 4 of its bytes still fit an array's room
    for (std::size_t i = 0; i < items.size(); ++i) {
      extents[i] = parse_integer(items[i], name);
      if (extents[i] > most || extents[i] < -most)
        throw ValueError(complaint(name, std::to_string(extents[i]), "2^44 at most"));
    }
    return static_cast<int>(items.size());
  }

  nb::dict fields_;
  int arrays_ = 0;
};

template <class Args>
void set_epilogue(Problem& problem, Args& args) {
  args.out = problem.view("out");
  if (problem.has("c")) {
    const nb::object c = problem.get("c");
    const bool in_place = PyUnicode_Check(c.ptr()) && nb::cast<std::string>(c) == "out";
    args.c = in_place ? args.out : problem.view("c");
  }
  if (problem.has("alpha"))
    args.alpha = to_float(parse_number(problem.get("alpha"), "alpha"), "alpha");
  if (problem.has("layout")) args.layout = parse_layout(problem.get("layout"));
}

template <class Args>
void set_rows(Problem& problem, Args& args) {
  args.a = problem.operand("a");
  args.b = problem.operand("b");
  set_epilogue(problem, args);
  args.bias = problem.optional_view("bias");
  args.activation = parse_activation(problem.get_or_none("activation"));
}

template <class Args>
KernelReport report_of(const Args& args, const ReportOptions& options, bool compile) {
  const GilReleased released;
  return compile ? prepare(args, options) : explain(args, options);
}

KernelReport report_gemm(Problem& problem, const ReportOptions& options, bool compile) {
  GemmArgs args;
  set_rows(problem, args);
  if (problem.has("out_scale"))
    args.out_scale = to_float(parse_number(problem.get("out_scale"), "out_scale"), "out_scale");
  return report_of(args, options, compile);
}

KernelReport report_grouped(Problem& problem, const ReportOptions& options, bool compile) {
  GroupedArgs args;
  set_rows(problem, args);
  const std::pair<const char*, GroupForm> forms[] = {{"group_sizes", GroupForm::sizes},
                                                     {"group_offsets", GroupForm::offsets},
                                                     {"group_ends", GroupForm::ends},
                                                     {"labels", GroupForm::labels}};
  int given = 0;
  for (const auto& [key, form] : forms) {
    if (!problem.has(key)) continue;
    args.groups = problem.view(key);
    args.form = form;
    ++given;
  }
  if (given != 1) {
    throw ValueError(complaint("problem", std::to_string(given) + " group arrays",
                               "one of group_sizes, group_offsets, group_ends and labels"));
  }
  if (problem.has("alignment"))
    args.alignment = parse_integer(problem.get("alignment"), "alignment");
  return report_of(args, options, compile);
}

KernelReport report_masked(Problem& problem, const ReportOptions& options, bool compile) {
  MaskedArgs args;
  set_rows(problem, args);
  args.rows = problem.view("rows");
  if (problem.has("expected_rows"))
    args.expected_rows = parse_integer(problem.get("expected_rows"), "expected_rows");
  return report_of(args, options, compile);
}

KernelReport report_k_grouped(Problem& problem, const ReportOptions& options, bool compile) {
  KGroupedArgs args;
  args.a = problem.operand("a");
  args.b = problem.operand("b");
  set_epilogue(problem, args);
  args.k_sizes = problem.view("k_sizes");
  return report_of(args, options, compile);
}

// Of quantize() there are no arrays in a record: its kernel depends on the extents only.
KernelReport report_quantize(Problem& problem, const ReportOptions& options, bool compile) {
  nb::dict array;
  array["shape"] = problem.get("shape");
  array["dtype"] = problem.get("dtype");
  nb::dict one;
  one["values"] = array;
  const TensorView values = Problem(one).view("values");
  const Granularity granularity = parse_granularity(problem.get("granularity"), "granularity");
  const GilReleased released;
  return compile ? prepare_quantize(values, granularity, options)
                 : explain_quantize(values, granularity, options);
}

KernelReport report_dequantize(Problem&, const ReportOptions& options, bool compile) {
  const GilReleased released;
  return compile ? prepare_dequantize(options) : explain_dequantize(options);
}

KernelReport report_scale_layout(Problem&, const ReportOptions& options, bool compile) {
  const GilReleased released;
  return compile ? prepare_scale_layout(options) : explain_scale_layout(options);
}

nb::dict report_problem(nb::dict fields, nb::handle policy, nb::handle named, bool compile,
                        bool candidates) {
  using Report = KernelReport (*)(Problem&, const ReportOptions&, bool);
  const std::pair<std::string_view, Report> known[] = {{"gemm", report_gemm},
                                                       {"grouped_gemm", report_grouped},
                                                       {"masked_gemm", report_masked},
                                                       {"k_grouped_gemm", report_k_grouped},
                                                       {"quantize", report_quantize},
                                                       {"dequantize", report_dequantize},
                                                       {"scale_layout", report_scale_layout}};
  Problem problem(std::move(fields));
  const std::optional<Policy> chosen = parse_policy(policy);
  const std::optional<int> device = parse_optional_int(named, "device");
  ReportOptions options;
  if (chosen) options.policy = &*chosen;
  options.device = device_of(device, {});
  options.load = device.has_value();
  options.candidates = candidates;
  if (problem.has("device_sms")) {
    options.device_sms = parse_int(problem.get("device_sms"), "device_sms");
    if (options.device_sms < 1)
      throw ValueError(complaint("device_sms", std::to_string(options.device_sms), "1 or more"));
  } else {
    options.num_sms = call_options({DeviceKind::cuda, options.device}).num_sms;
  }
  if (problem.has("num_sms")) options.num_sms = parse_int(problem.get("num_sms"), "num_sms");
  const auto op = nb::cast<std::string>(nb::str(problem.get("op")));
  for (const auto& [name, report] : known) {
    if (op == name) return to_dict(report(problem, options, compile));
  }
  throw ValueError(complaint("op", "\"" + op + "\"",
                             "gemm, grouped_gemm, masked_gemm, k_grouped_gemm, quantize, "
                             "dequantize or scale_layout"));
}

nb::dict to_dict(const TensorView& view) {
  nb::dict result;
  result["dtype"] = std::string(name(view.dtype));
  nb::list shape, strides;
  for (int i = 0; i < view.rank; ++i) {
    shape.append(view.shape[i]);
    strides.append(view.strides[i]);
  }
  result["shape"] = shape;
  result["strides"] = strides;
  result["offset"] = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(view.data) % 16);
  return result;
}

nb::dict to_dict(const ScaledView& operand) {
  nb::dict result = to_dict(operand.values);
  if (!operand.sf) return result;
  result["sf"] = to_dict(*operand.sf);
  if (operand.granularity) {
    const Granularity& g = *operand.granularity;
    result["granularity"] = nb::make_tuple(g.rows, g.k);
  }
  return result;
}

nb::tuple describe_array(nb::handle array, const char* operand) {
  TensorView view;
  const Array imported = import_array(array, operand, view);
  return nb::make_tuple(to_dict(view), reinterpret_cast<std::uintptr_t>(view.data));
}

nb::tuple describe_operands(nb::handle a, nb::handle b, nb::handle layout, nb::handle granularity) {
  ScaledView a_view, b_view;
  const Operand first = import_operand(a, "a", "sfa", a_view);
  const Operand second = import_operand(b, "b", "sfb", b_view);
  turn_granularities(parse_layout(layout), a_view, b_view);
  apply_granularities(parse_granularities(granularity), a_view, b_view);
  const Device where = first.values.device;
  return nb::make_tuple(to_dict(a_view), to_dict(b_view),
                        first.sf.number.value_or(1) * second.sf.number.value_or(1),
                        where.kind == DeviceKind::cuda ? where.index : -1);
}

}  // namespace

void bind_problems(nb::module_& module) {
  module.def("report_problem", &report_problem, "problem"_a, "policy"_a.none(), "device"_a.none(),
             "compile"_a, "candidates"_a = true,
             nb::sig("def report_problem(problem: dict[str, typing.Any], policy: object, device: "
                     "int | None, compile: bool, candidates: bool = True) -> "
                     "dict[str, typing.Any]"),
             "How a recorded problem would be computed; `device` and `compile` as in report_gemm.");
  module.def("describe_array", &describe_array, "array"_a.none(), "operand"_a,
             nb::sig("def describe_array(array: object, operand: str) -> "
                     "tuple[dict[str, typing.Any], int]"),
             "An array as a recorded problem has it, and its address.");
  module.def("describe_operands", &describe_operands, "a"_a.none(), "b"_a.none(), "layout"_a.none(),
             "granularity"_a.none(),
             nb::sig("def describe_operands(a: object, b: object, layout: object, granularity: "
                     "object) -> tuple[dict[str, typing.Any], dict[str, typing.Any], float, int]"),
             "The operands of a product likewise, what factors given as numbers make, and the\n"
             "CUDA device of a (-1: host memory).");
}

}  // namespace deepgemm::bindings
