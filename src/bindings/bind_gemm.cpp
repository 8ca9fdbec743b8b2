// deepgemm._ext.gemm and Policy.
#include <nanobind/stl/optional.h>

#include <string>
#include <utility>

#include "bindings/arguments.hpp"
#include "bindings/bind.hpp"
#include "bindings/errors.hpp"
#include "bindings/fast_call.hpp"
#include "bindings/gemm_arguments.hpp"
#include "bindings/gil.hpp"
#include "bindings/scalars.hpp"
#include "bindings/tensor_output.hpp"

namespace deepgemm::bindings {
namespace {

using namespace nb::literals;

nb::object gemm_of(const GemmArguments& arguments) {
  using enum GemmArguments::Index;
  GemmCall call(arguments.arrays(), arguments.options());
  const Array& like = call.a.values;
  CallOptions options = call_options(like.device);
  options.stream = find_stream(arguments.at[stream], like);
  const std::optional<Policy> chosen = parse_policy(arguments.at[policy]);
  if (chosen) options.policy = &*chosen;
  options.accumulate_in_f64 = parse_flag(arguments.at[accumulate_in_f64], "accumulate_in_f64");
  std::optional<Output> output = allocate_out(call);
  {
    // Why always: it runs on the CPU, or may compile a kernel for a third of a second; PyTorch
    // releases the GIL in every operator for the same reason.
    const GilReleased released;
    gemm(call.args, options);
  }
  if (output) return finish(*output, like, options.stream);
  return nb::borrow(arguments.at[out]);
}

PyObject* call_gemm(PyObject*, PyObject* const* args, std::size_t count, PyObject* names) {
  return guarded([&] { return gemm_of(GemmArguments(args, count, names)); });
}

struct IntField {
  const char* name;
  std::optional<int> Policy::* member;
  const char* meaning;
};
constexpr IntField int_fields[] = {
    {"tile_m", &Policy::tile_m,
     "persistent: rows of out that a CTA computes at a time. A multiple of 64 for each\n"
     "warpgroup along M (consumers / consumers_n of them), at most 256."},
    {"tile_n", &Policy::tile_n,
     "persistent: columns of out likewise. A multiple of 16 times consumers_n, at most\n"
     "256; FP8: at most 192 for each warpgroup along N."},
    {"stages", &Policy::stages,
     "persistent, decode: pieces of K that shared memory holds at once. One is 128 bytes\n"
     "of each row of a and b (decode: stage_blocks times that). persistent: 2 or more,\n"
     "decode: 1 or more, and as many as fit. None: as many of those measured as fit beside\n"
     "the output."},
    {"cluster_m", &Policy::cluster_m,
     "persistent, FP8 without groups: CTAs of a cluster along M, which share what they\n"
     "read of b. 1 or 2, and one of cluster_m, cluster_n and cluster_k alone above 1.\n"
     "None: 1."},
    {"cluster_n", &Policy::cluster_n,
     "persistent, FP8 without groups: CTAs of a cluster along N, which share what they\n"
     "read of a. 1 or 2. None: 1."},
    {"consumers", &Policy::consumers,
     "persistent: warpgroups (of 128 threads) of a CTA that multiply, 1 to 3. decode: 1 or\n"
     "2, each with 64 rows of b."},
    {"consumers_n", &Policy::consumers_n,
     "persistent: how many of the consumers lie side by side along N; the others lie along\n"
     "M. Divides consumers. None: 1."},
    {"group", &Policy::group,
     "persistent: tiles side by side along M (raster_along_n: along N) that are computed\n"
     "before the next ones along the other dimension, so that L2 still holds what they\n"
     "share. 1 or more; more than there are counts as all."},
    {"stage_blocks", &Policy::stage_blocks,
     "decode: blocks of K of 128 bytes in a stage: 1, 2 or 4."},
    {"cluster_k", &Policy::cluster_k,
     "persistent without groups, decode: CTAs that share a tile of out, each with a part\n"
     "of K. 1, 2 or 4; decode: 8 too."},
    {"ctas_per_sm", &Policy::ctas_per_sm,
     "decode: CTAs that an SM is to hold at once; with their stages they share its 228 KB.\n"
     "1 or more."},
    {"num_sms", &Policy::num_sms,
     "SMs that the kernel may occupy; with that of deepgemm.options the smaller counts. 0\n"
     "or None: all. The general kernel takes no notice where there are no groups."},
};
constexpr const char* kernel_meaning =
    "\"persistent\" (tensor cores), \"decode\" (tensor cores; few rows of a, no groups) or\n"
    "\"general\" (FP32 FMA: takes everything, slowly). None: the fastest that takes the\n"
    "product.";
constexpr const char* raster_meaning =
    "persistent without groups: whether group counts tiles along N; else along M.";
constexpr const char* ordered_meaning =
    "persistent, FP8, consumers = 2: the two warpgroups take turns to multiply, so that\n"
    "one scales its sums while the other multiplies.";

// One keyword of Policy's constructor and one attribute.
template <class T>
void set_field(const nb::kwargs& fields, const char* name, std::optional<T>& field) {
  if (!fields.contains(name)) return;
  const nb::object value = fields[name];
  if (value.is_none()) return;
  T found{};
  if (!nb::try_cast(value, found)) {
    if (std::is_same_v<T, int> && PyLong_Check(value.ptr())) {
      throw ValueError(
          complaint(std::string("policy.") + name, nb::repr(value).c_str(), "a number of 32 bits"));
    }
    throw TypeError(complaint(std::string("policy.") + name, nb::repr(value).c_str(),
                              std::is_same_v<T, std::string> ? "a str"
                              : std::is_same_v<T, bool>      ? "a bool"
                                                             : "an int"));
  }
  field = std::move(found);
}

void make_policy(Policy* self, const nb::kwargs& fields) {
  Policy made;
  set_field(fields, "kernel", made.kernel);
  for (const IntField& field : int_fields) set_field(fields, field.name, made.*field.member);
  set_field(fields, "raster_along_n", made.raster_along_n);
  set_field(fields, "ordered", made.ordered);
  for (const auto& [key, value] : fields) {
    if (!nb::hasattr(nb::type<Policy>(), key)) {
      throw ValueError(complaint("policy", "the field " + nb::cast<std::string>(nb::str(key)),
                                 "an attribute of deepgemm.Policy"));
    }
  }
  new (self) Policy(std::move(made));  // last: what throws above must not leave one undestroyed
}

// "Policy(kernel='persistent', tile_m=128)": what is set.
std::string describe(const Policy& policy) {
  std::string text;
  const auto add = [&](const char* name, const auto& field) {
    if (!field) return;
    text.append(text.empty() ? "" : ", ").append(name).append("=");
    text += nb::cast<std::string>(nb::repr(nb::cast(*field)));
  };
  add("kernel", policy.kernel);
  for (const IntField& field : int_fields) add(field.name, policy.*field.member);
  add("raster_along_n", policy.raster_along_n);
  add("ordered", policy.ordered);
  return "Policy(" + text + ")";
}

void bind_policy(nb::module_& module) {
  nb::class_<Policy> policy(
      module, "Policy",
      "Which kernel of a GPU computes a product, and how.\n\n"
      "Fields left None are chosen by the heuristics; an illegal choice is a ValueError that\n"
      "names the field or the rule. Each field says which kernels have it, and asks for those.\n"
      "The \"policy\" of each of explain()'s candidates is a set of these fields. Products in\n"
      "host memory are computed as if there were none.");
  policy.def("__init__", &make_policy, "fields"_a,
             nb::sig("def __init__(self, *, kernel: str | None = None, tile_m: int | None = None, "
                     "tile_n: int | None = None, stages: int | None = None, cluster_m: int | None "
                     "= None, cluster_n: int | None = None, consumers: int | None = None, "
                     "consumers_n: int | None = None, group: int | None = None, stage_blocks: int "
                     "| None = None, cluster_k: int | None = None, ctas_per_sm: int | None = None, "
                     "num_sms: int | None = None, raster_along_n: bool | None = None, ordered: "
                     "bool | None = None) -> None"));
  policy.def_rw("kernel", &Policy::kernel, nb::arg().none(), kernel_meaning);
  for (const IntField& field : int_fields) {
    policy.def_rw(field.name, field.member, nb::arg().none(), field.meaning);
  }
  policy.def_rw("raster_along_n", &Policy::raster_along_n, nb::arg().none(), raster_meaning);
  policy.def_rw("ordered", &Policy::ordered, nb::arg().none(), ordered_meaning);
  policy.def("__repr__", &describe);
}

}  // namespace

void bind_gemm(nb::module_& module) {
  bind_policy(module);
  module.attr("gemm") = make_operation(&call_gemm);
}

}  // namespace deepgemm::bindings
