// deepgemm.Plan: a type of its own, because a call of it must cost next to nothing.
#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "bindings/bind.hpp"
#include "bindings/errors.hpp"
#include "bindings/fast_call.hpp"
#include "bindings/gemm_arguments.hpp"
#include "bindings/report.hpp"
#include "bindings/scalars.hpp"
#include "deepgemm/plan.hpp"

namespace deepgemm::bindings {
namespace {

using Index = GemmArguments::Index;

// What a plan keeps of the arguments it was made with: no array. A new out is made as it was then.
struct Kept {
  Plan plan;
  nb::object activation, alpha, out_dtype, out_scale, layout, granularity;
};

struct PlanObject {
  PyObject ob_base;
  vectorcallfunc call;
  Kept* kept;
};

Kept& kept_of(PyObject* self) { return *reinterpret_cast<PlanObject*>(self)->kept; }

struct CallArguments {
  enum Index : std::size_t { a, b, out, c, bias, stream, size };
  CallArguments(PyObject* const* args, std::size_t count, PyObject* names) {
    static const auto* const parameters =
        new Parameters("Plan", 2, 3, {{"a"}, {"b"}, {"out"}, {"c"}, {"bias"}, {"stream"}});
    parameters->read(args, static_cast<std::size_t>(PyVectorcall_NARGS(count)), names, at);
  }
  nb::handle at[size];
};

nb::object run(const Kept& kept, const CallArguments& given) {
  using enum CallArguments::Index;
  GemmCall call =
      import_gemm({given.at[a], given.at[b], given.at[out], given.at[c], given.at[bias],
                   kept.activation, kept.alpha, kept.out_dtype, kept.out_scale, kept.layout,
                   kept.granularity});
  const Array& like = call.a.values;
  const Stream stream_of_call = find_stream(given.at[stream], like);
  std::optional<Output> output = allocate_out(call);
  {
    const nb::gil_scoped_release released;
    kept.plan.run(call.args, stream_of_call);  // whoever calls a plan holds it
  }
  if (output) return finish(*output, like, stream_of_call);
  return nb::borrow(given.at[out]);
}

PyObject* call_plan(PyObject* self, PyObject* const* args, std::size_t count, PyObject* names) {
  return guarded([&] { return run(kept_of(self), CallArguments(args, count, names)); });
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
PyType_Slot slots[] = {
    {Py_tp_members, members},
    {Py_tp_getset, attributes},
    {Py_tp_methods, methods},
    {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
    {Py_tp_dealloc, reinterpret_cast<void*>(free_plan)},
    {Py_tp_repr, reinterpret_cast<void*>(show_plan)},
    {Py_tp_doc, const_cast<char*>("A prepared call: see deepgemm.plan.")},
    {0, nullptr}};
PyType_Spec spec = {
    "deepgemm.Plan", sizeof(PlanObject), 0,
    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
PyTypeObject* plan_type = nullptr;  // lives as long as the module

nb::object make(const GemmArguments& given) {
  GemmCall call = import_gemm(given.handles());
  CallOptions options = call_options(call.a.values.view.device);
  const std::optional<Policy> chosen = parse_policy(given.at[Index::policy]);
  if (chosen) options.policy = &*chosen;
  options.accumulate_in_f64 = parse_flag(given.at[Index::accumulate_in_f64], "accumulate_in_f64");
  const std::optional<Output> output = allocate_out(call);
  std::optional<Plan> plan;
  {
    const nb::gil_scoped_release released;  // it may compile a kernel
    plan = make_plan(call.args, options);
  }
  const auto held = [&](Index index) { return nb::borrow(given.at[index]); };
  nb::object dtype = nb::cast(std::string(name(call.out_dtype)));
  auto* made = reinterpret_cast<PlanObject*>(plan_type->tp_alloc(plan_type, 0));
  if (made == nullptr) nb::raise_python_error();
  const nb::object owner = nb::steal(reinterpret_cast<PyObject*>(made));
  made->call = &call_plan;
  made->kept = new Kept{*std::move(plan),          held(Index::activation), held(Index::alpha),
                        std::move(dtype),          held(Index::out_scale),  held(Index::layout),
                        held(Index::granularity)};
  return owner;
}

PyObject* plan_gemm(PyObject*, PyObject* const* args, std::size_t count, PyObject* names) {
  return guarded([&] { return make(GemmArguments(args, count, names)); });
}

}  // namespace

void bind_plan(nb::module_& module) {
  plan_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&spec));
  if (plan_type == nullptr) nb::raise_python_error();
  module.attr("Plan") = nb::borrow(reinterpret_cast<PyObject*>(plan_type));
  module.attr("plan_gemm") = make_operation(&plan_gemm);
}

}  // namespace deepgemm::bindings
