// deepgemm.Plan: a type of its own, because a call of it must cost next to nothing.
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>

#include "bindings/bind.hpp"
#include "bindings/errors.hpp"
#include "bindings/fast_call.hpp"
#include "bindings/gemm_arguments.hpp"
#include "bindings/gil.hpp"
#include "bindings/grouped_arguments.hpp"
#include "bindings/reports.hpp"
#include "bindings/scalars.hpp"
#include "deepgemm/plan.hpp"

namespace deepgemm::bindings {
namespace {

// What a plan keeps of the arguments that it was made with: no array.
class Kept {
 public:
  explicit Kept(Plan made) : plan(std::move(made)) {}
  virtual ~Kept() = default;
  virtual nb::object run(PyObject* const* args, std::size_t count, PyObject* names) const = 0;
  const Plan plan;
};

struct PlanObject {
  PyObject ob_base;
  vectorcallfunc call;
  Kept* kept;
};

Kept& kept_of(PyObject* self) { return *reinterpret_cast<PlanObject*>(self)->kept; }

// The arguments of a call of a plan: its arrays, by the names that it gives them.
struct GivenArrays {
  ArrayHandles arrays;
  nb::handle stream;
};

GivenArrays read_dense(PyObject* const* args, std::size_t count, PyObject* names) {
  static const auto* const parameters =
      new Parameters("Plan", 2, 3, {{"a"}, {"b"}, {"out"}, {"c"}, {"bias"}, {"stream"}});
  nb::handle at[6];
  parameters->read(args, count, names, at);
  return {{at[0], at[1], at[2], at[3], at[4]}, at[5]};
}

GivenArrays read_grouped(PyObject* const* args, std::size_t count, PyObject* names) {
  static const auto* const parameters = new Parameters(
      "Plan", 3, 4, {{"a"}, {"b"}, {"groups"}, {"out"}, {"c"}, {"bias"}, {"stream"}});
  nb::handle at[7];
  parameters->read(args, count, names, at);
  return {{at[0], at[1], at[3], at[4], at[5], at[2]}, at[6]};
}

template <class Arguments>
class KeptOf final : public Kept {
 public:
  KeptOf(Plan made, const ProductOptions& options) : Kept(std::move(made)), options_(options) {}

  nb::object run(PyObject* const* args, std::size_t count, PyObject* names) const override {
    constexpr bool grouped = !std::is_same_v<Arguments, GemmArguments>;
    const GivenArrays given =
        grouped ? read_grouped(args, count, names) : read_dense(args, count, names);
    if (!(requires { Arguments::bias; }) && !given.arrays.bias.is_none()) {
      throw ValueError(complaint("bias", "an argument", "none", "k_grouped_gemm takes no bias"));
    }
    typename Arguments::Call call(given.arrays, options_);
    const Array& like = call.a.values;
    const Stream stream = find_stream(given.stream, like);
    std::optional<Output> output = allocate_out(call);
    {
      const GilReleased released;
      plan.run(call.args, stream);  // whoever calls a plan holds it
    }
    return output ? finish(*output, like, stream) : nb::borrow(given.arrays.out);
  }

 private:
  const ProductOptions options_;  // with the dtype of out
};

PyObject* call_plan(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  return guarded([&] { return kept_of(self).run(args, count, names); });
}

void free_plan(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  delete reinterpret_cast<PlanObject*>(self)->kept;
  type->tp_free(self);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

nb::dict problem_dict(const GemmProblem& p) {
  nb::dict problem;
  problem["m"] = p.m;
  problem["n"] = p.n;
  problem["k"] = p.k;
  problem["batch"] = p.batch;
  for (const auto& [key, dtype] : {std::pair{"a_dtype", p.a_dtype}, std::pair{"b_dtype", p.b_dtype},
                                   std::pair{"out_dtype", p.out_dtype}}) {
    problem[key] = std::string(name(dtype));
  }
  static constexpr const char* layouts[] = {"nt", "nn", "tn", "tt"};
  problem["layout"] = layouts[static_cast<std::size_t>(p.layout)];
  const auto granularity = [](bool scaled, const Granularity& g) -> nb::object {
    const auto part = [](std::int64_t x) { return x == 0 ? nb::none() : nb::cast(x); };
    if (!scaled) return nb::none();
    return nb::make_tuple(part(g.rows), part(g.k));
  };
  problem["a_granularity"] = granularity(p.a_scaled, p.a_granularity);
  problem["b_granularity"] = granularity(p.b_scaled, p.b_granularity);
  problem["c"] = p.has_c;
  problem["bias"] = p.has_bias;
  return problem;
}

nb::dict problem_of(const Plan& plan) {
  nb::dict problem;
  if (const auto* dense = std::get_if<GemmProblem>(&plan.problem())) {
    problem = problem_dict(*dense);
    problem["op"] = "gemm";
  } else {
    const auto& grouped = std::get<GroupedProblem>(plan.problem());
    problem = problem_dict(grouped.product);
    problem["groups"] = grouped.groups;
    static constexpr const char* names[] = {"grouped_gemm", "masked_gemm", "k_grouped_gemm"};
    problem["op"] = names[static_cast<std::size_t>(grouped.kind)];
  }
  return problem;
}

PyObject* get_problem(PyObject* self, void*) {
  return guarded([&]() -> nb::object { return problem_of(kept_of(self).plan); });
}

PyObject* get_config(PyObject* self, void*) {
  return guarded([&]() -> nb::object { return nb::cast(kept_of(self).plan.explain().config); });
}

PyObject* explain_plan(PyObject* self, PyObject*) {
  return guarded([&]() -> nb::object {
    nb::dict fields = to_dict(kept_of(self).plan.explain());
    fields["problem"] = problem_of(kept_of(self).plan);
    return nb::module_::import_("deepgemm._runtime").attr("Report")(**fields);
  });
}

PyObject* show_plan(PyObject* self) {
  return guarded([&]() -> nb::object {
    const KernelReport& report = kept_of(self).plan.explain();
    return nb::cast("<deepgemm.Plan: " + report.kernel + ", " + report.config + ">");
  });
}

PyMemberDef members[] = {offset_member("__vectorcalloffset__", offsetof(PlanObject, call)), {}};
PyGetSetDef attributes[] = {
    {"problem", get_problem, nullptr, "What it computes: op, extents, dtypes, layout, ...",
     nullptr},
    {"config", get_config, nullptr, "The config of its kernel, in words.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};
PyMethodDef methods[] = {
    {"explain", explain_plan, METH_NOARGS,
     "explain($self)\n--\n\nReturn the deepgemm.Report of what was chosen, and why."},
    {nullptr, nullptr, 0, nullptr}};
PyType_Slot slots[] = {{Py_tp_members, members},
                       {Py_tp_getset, attributes},
                       {Py_tp_methods, methods},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(free_plan)},
                       {Py_tp_repr, reinterpret_cast<void*>(show_plan)},
                       {Py_tp_doc, const_cast<char*>("A prepared call: see deepgemm.plan.")},
                       {0, nullptr}};
PyType_Spec spec = {
    "deepgemm._ext.Plan", sizeof(PlanObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
PyTypeObject* plan_type = nullptr;  // lives as long as the module

template <class Arguments>
nb::object make(const Arguments& given) {
  ProductOptions product = given.options();
  typename Arguments::Call call(given.arrays(), product);
  product.out_dtype = call.out_dtype;
  CallOptions options = call_options(call.a.values.device);
  const std::optional<Policy> chosen = parse_policy(given.at[Arguments::policy]);
  if (chosen) options.policy = &*chosen;
  options.accumulate_in_f64 =
      parse_flag(given.at[Arguments::accumulate_in_f64], "accumulate_in_f64");
  const std::optional<Output> output = allocate_out(call);
  std::optional<Plan> plan;
  {
    const GilReleased released;  // it may compile a kernel
    plan = make_plan(call.args, options);
  }
  auto kept = std::make_unique<KeptOf<Arguments>>(*std::move(plan), product);
  auto* made = reinterpret_cast<PlanObject*>(plan_type->tp_alloc(plan_type, 0));
  if (made == nullptr) nb::raise_python_error();
  made->call = &call_plan;
  made->kept = kept.release();
  return nb::steal(reinterpret_cast<PyObject*>(made));
}

template <class Arguments>
PyObject* plan_operation(PyObject*, PyObject* const* args, std::size_t count, PyObject* names) {
  return guarded([&] { return make(Arguments(args, count, names)); });
}

}  // namespace

void bind_plan(nb::module_& module) {
  plan_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (plan_type == nullptr) nb::raise_python_error();
  module.attr("Plan") = nb::borrow(reinterpret_cast<PyObject*>(plan_type));
  module.attr("plan_gemm") = make_operation(&plan_operation<GemmArguments>);
  module.attr("plan_grouped_gemm") = make_operation(&plan_operation<GroupedArguments>);
  module.attr("plan_masked_gemm") = make_operation(&plan_operation<MaskedArguments>);
  module.attr("plan_k_grouped_gemm") = make_operation(&plan_operation<KGroupedArguments>);
}

}  // namespace deepgemm::bindings
