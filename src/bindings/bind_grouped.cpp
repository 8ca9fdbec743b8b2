// deepgemm._ext.grouped_gemm, masked_gemm and k_grouped_gemm.
#include <optional>

#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "bindings/grouped_arguments.hpp"
#include "bindings/scalars.hpp"

namespace deepgemm::bindings {
namespace {

// Allocates out if there is none, computes, and hands it back.
template <class Arguments, auto operation>
nb::object compute(const Arguments& arguments) {
  typename Arguments::Call call(arguments.arrays(), arguments.options());
  const Array& like = call.a.values;
  CallOptions options = call_options(like.device);
  options.stream = find_stream(arguments.at[Arguments::stream], like);
  options.accumulate_in_f64 =
      parse_flag(arguments.at[Arguments::accumulate_in_f64], "accumulate_in_f64");
  const std::optional<Policy> chosen = parse_policy(arguments.at[Arguments::policy]);
  if (chosen) options.policy = &*chosen;
  std::optional<Output> made = allocate_out(call);
  {
    const GilReleased released;
    operation(call.args, options);
  }
  return made ? finish(*made, like, options.stream) : nb::borrow(arguments.at[Arguments::out]);
}

template <class Arguments, auto operation>
PyObject* call_operation(PyObject*, PyObject* const* args, std::size_t count, PyObject* names) {
  return guarded([&] { return compute<Arguments, operation>(Arguments(args, count, names)); });
}

}  // namespace

void bind_grouped(nb::module_& module) {
  module.attr("grouped_gemm") = make_operation(&call_operation<GroupedArguments, &grouped_gemm>);
  module.attr("masked_gemm") = make_operation(&call_operation<MaskedArguments, &masked_gemm>);
  module.attr("k_grouped_gemm") =
      make_operation(&call_operation<KGroupedArguments, &k_grouped_gemm>);
}

}  // namespace deepgemm::bindings
