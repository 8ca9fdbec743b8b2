// Explanations and preparation: from arrays, or from shapes alone with no memory behind them.
#include <nanobind/stl/optional.h>

#include <algorithm>
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

nb::dict to_dict(const KernelReport& report) {
  nb::dict fields;
  for (const auto& [key, value] : report.fields) fields[key.c_str()] = value;
  nb::dict result;
  result["kernel"] = report.kernel;
  result["config"] = report.config;
  result["identity"] = report.identity;
  result["fields"] = fields;
  result["reason"] = report.reason;
  result["origin"] = report.origin;
  result["milliseconds"] = report.milliseconds;
  result["shared_bytes"] = report.shared_bytes;
  result["threads"] = report.threads;
  result["grid"] = report.grid;
  result["stages"] = report.stages;
  nb::list candidates;
  for (const CandidateReport& candidate : report.candidates) {
    nb::dict policy;
    policy["kernel"] = candidate.kernel;
    for (const auto& [name, value] : candidate.policy) {
      policy[name.c_str()] = name == "ordered" ? nb::cast(value != 0) : nb::cast(value);
    }
    nb::dict entry;
    entry["config"] = candidate.config;
    entry["predicted_us"] = candidate.predicted_us;
    entry["swept"] = candidate.swept;
    entry["policy"] = policy;
    candidates.append(entry);
  }
  result["candidates"] = candidates;
  return result;
}

// The named device, else the arrays', else a GPU that is there, else -1: the figures of an H200.
int device_of(std::optional<int> named, Device arrays) {
  if (named) return *named;
  if (arrays.kind == DeviceKind::cuda) return arrays.index;
  const GilReleased released;  // it may load the driver
  return usable_device();
}

namespace {

using namespace nb::literals;

// Loads the kernel on a named device only: compiling ahead needs no context.
nb::dict report(const GemmArgs& args, nb::handle policy, std::optional<int> named, Device arrays,
                bool compile) {
  const std::optional<Policy> chosen = parse_policy(policy);
  ReportOptions options;
  if (chosen) options.policy = &*chosen;
  options.device = device_of(named, arrays);
  options.num_sms = call_options({DeviceKind::cuda, options.device}).num_sms;
  options.load = named.has_value();
  KernelReport result;
  {
    const GilReleased released;
    result = compile ? prepare(args, options) : explain(args, options);
  }
  return to_dict(result);
}

nb::dict report_gemm(nb::handle a, nb::handle b, nb::handle out, nb::handle c, nb::handle bias,
                     nb::handle activation, nb::handle alpha, nb::handle out_dtype,
                     nb::handle out_scale, nb::handle layout, nb::handle granularity,
                     nb::handle policy, nb::handle device, bool compile) {
  GemmCall call({a, b, out, c, bias},
                parse_options({layout, alpha, out_dtype, activation, granularity, out_scale}));
  if (!call.out.given()) {
    const Device where = call.args.a.values.device;
    const auto [batched, batch, m, n] = extents_of_out(call.args);
    call.args.out = batched ? make_view(nullptr, call.out_dtype, {batch, m, n}, where)
                            : make_view(nullptr, call.out_dtype, {m, n}, where);
  }
  return report(call.args, policy, parse_optional_int(device, "device"), call.args.a.values.device,
                compile);
}

// Null data stands for aligned memory.
ScaledView shape_operand(nb::handle dtype, nb::handle granularity, std::int64_t rows,
                         std::int64_t k, bool turned, Device device, const char* argument) {
  ScaledView operand;
  const DType type = parse_dtype(dtype, argument);
  operand.values = turned ? make_view(nullptr, type, {k, rows}, device)
                          : make_view(nullptr, type, {rows, k}, device);
  if (granularity.is_none()) return operand;
  operand.granularity = parse_granularity(granularity, "granularity");
  const ScaleExtents extents = scale_extents(*operand.granularity, rows, k);
  if (operand.granularity->rows == 1) {  // the fast layout, as quantize makes it
    operand.sf = make_view(nullptr, DType::float32, {extents.rows, extents.k}, device);
    operand.sf->strides = {1, fast_scale_pitch(extents.rows)};
  } else {
    operand.sf = make_view(nullptr, DType::float32, {extents.rows, extents.k}, device);
  }
  if (turned) operand.sf = transposed(*operand.sf);
  return operand;
}

nb::dict report_shape(nb::handle m_given, nb::handle n_given, nb::handle k_given,
                      nb::handle a_dtype, nb::handle b_dtype, nb::handle out_dtype,
                      nb::handle a_granularity, nb::handle b_granularity, nb::handle layout,
                      nb::handle activation, bool c, bool bias, nb::handle policy, nb::handle named,
                      bool compile) {
  const std::int64_t m = parse_integer(m_given, "M"), n = parse_integer(n_given, "N"),
                     k = parse_integer(k_given, "K");
  const std::optional<int> device = parse_optional_int(named, "device");
  if (m < 0 || n < 0 || k < 0) {
    throw ValueError(complaint(
        "shape", std::to_string(m) + " x " + std::to_string(n) + " x " + std::to_string(k),
        "M, N, K of 0 or more"));
  }
  const Device where{DeviceKind::cuda, std::max(device.value_or(0), 0)};
  GemmArgs args;
  args.layout = parse_layout(layout);
  args.a = shape_operand(a_dtype, a_granularity, m, k, a_is_k_by_m(args.layout), where, "a_dtype");
  args.b = shape_operand(b_dtype, b_granularity, n, k, b_is_k_by_n(args.layout), where, "b_dtype");
  args.activation = parse_activation(activation);
  args.out = make_view(nullptr, parse_dtype(out_dtype, "out_dtype"), {m, n}, where);
  if (c) args.c = args.out;
  if (bias) args.bias = make_view(nullptr, DType::float32, {n}, where);
  return report(args, policy, device, {}, compile);
}

nb::dict measure_call_binding(nb::handle a, nb::handle b, nb::handle out, nb::handle stream,
                              int calls, int samples) {
  const GemmCall call({a, b, out}, {});
  CallOptions options = call_options(call.args.a.values.device);
  options.stream = find_stream(stream, call.a.values);
  CallCost cost;
  {
    const GilReleased released;
    cost = measure_call(call.args, options, calls, samples);
  }
  nb::dict result;
  result["call_us"] = cost.call_us;
  result["launch_us"] = cost.launch_us;
  return result;
}

nb::list selectable() {
  nb::list result;
  for (const KernelReport& kernel : selectable_kernels()) result.append(to_dict(kernel));
  return result;
}

nb::dict compile_one(std::size_t index) {
  CompileReport report;
  {
    const GilReleased released;
    report = compile_selectable(index);
  }
  nb::dict result;
  result["kernel"] = report.kernel;
  result["config"] = report.config;
  result["log"] = report.log;
  result["milliseconds"] = report.milliseconds;
  result["cubin_bytes"] = report.cubin_bytes;
  result["cubin"] = nb::bytes(report.cubin.data(), report.cubin.size());
  return result;
}

}  // namespace

void bind_reports(nb::module_& module) {
  module.def(
      "report_gemm", &report_gemm, "a"_a.none(), "b"_a.none(), "out"_a.none(), "c"_a.none(),
      "bias"_a.none(), "activation"_a.none(), "alpha"_a.none(), "out_dtype"_a.none(),
      "out_scale"_a.none(), "layout"_a.none(), "granularity"_a.none(), "policy"_a.none(),
      "device"_a.none(), "compile"_a,
      nb::sig("def report_gemm(a: object, b: object, out: object, c: object, bias: object, "
              "activation: object, alpha: float, out_dtype: object, out_scale: object, "
              "layout: object, granularity: object, policy: object, device: int | None, "
              "compile: bool) -> dict[str, typing.Any]"),
      "How gemm would compute this on `device` (None: the arrays', else 0 if it is a Hopper\n"
      "GPU; -1: the figures of an H200). With `compile` the kernel is prepared too, and loaded\n"
      "on a named device.");
  module.def("report_shape", &report_shape, "m"_a.none(), "n"_a.none(), "k"_a.none(),
             "a_dtype"_a.none(), "b_dtype"_a.none(), "out_dtype"_a.none(), "a_granularity"_a.none(),
             "b_granularity"_a.none(), "layout"_a.none(), "activation"_a.none(), "c"_a, "bias"_a,
             "policy"_a.none(), "device"_a.none(), "compile"_a,
             nb::sig("def report_shape(m: int, n: int, k: int, a_dtype: object, b_dtype: object, "
                     "out_dtype: object, a_granularity: object, b_granularity: object, layout: "
                     "object, activation: object, c: bool, bias: bool, policy: object, device: "
                     "int | None, compile: bool) -> dict[str, typing.Any]"),
             "The same for aligned arrays of these shapes; a granularity of None means no sf.");
  module.def("measure_call", &measure_call_binding, "a"_a, "b"_a, "out"_a, "stream"_a.none(),
             "calls"_a, "samples"_a,
             nb::sig("def measure_call(a: object, b: object, out: object, stream: object, calls: "
                     "int, samples: int) -> dict[str, float]"),
             "What one gemm costs the CPU from C++, and the driver's launch in it: microseconds.");
  module.def(
      "dtype_name", [](nb::handle dtype) { return std::string(name(parse_dtype(dtype, "dtype"))); },
      "dtype"_a.none(), nb::sig("def dtype_name(dtype: object) -> str"),
      "The name of a dtype of any framework, or of a name.");
  module.def("selectable_kernels", &selectable,
             nb::sig("def selectable_kernels() -> list[dict[str, typing.Any]]"),
             "Every config that the heuristics can select.");
  module.def("compile_selectable", &compile_one, "index"_a,
             nb::sig("def compile_selectable(index: int) -> dict[str, typing.Any]"),
             "Compiles one of them with ptxas -v, touching no cache.");
}

}  // namespace deepgemm::bindings
