// The arguments of the grouped operations, and of plans of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "bindings/arguments.hpp"
#include "bindings/fast_call.hpp"
#include "deepgemm/grouped.hpp"

namespace deepgemm::bindings {

// As `at[...]` of each: borrowed.
struct GroupedArguments {
  enum Index : std::size_t {
    a,
    b,
    group_sizes,
    out,
    group_offsets,
    group_ends,
    alignment,
    labels,
    c,
    bias,
    activation,
    alpha,
    out_dtype,
    layout,
    granularity,
    policy,
    stream,
    accumulate_in_f64,
    size
  };
  GroupedArguments() = default;
  GroupedArguments(PyObject* const* args, std::size_t count, PyObject* names);
  // The one that is given of the four that say whose rows are whose; ValueError otherwise.
  Index vector() const;
  nb::handle at[size];
};

struct MaskedArguments {
  enum Index : std::size_t {
    a,
    b,
    rows,
    out,
    expected_rows,
    c,
    bias,
    activation,
    alpha,
    out_dtype,
    layout,
    granularity,
    policy,
    stream,
    accumulate_in_f64,
    size
  };
  MaskedArguments() = default;
  MaskedArguments(PyObject* const* args, std::size_t count, PyObject* names);
  Index vector() const { return rows; }
  nb::handle at[size];
};

struct KGroupedArguments {
  enum Index : std::size_t {
    a,
    b,
    k_sizes,
    out,
    c,
    alpha,
    out_dtype,
    layout,
    policy,
    stream,
    accumulate_in_f64,
    size
  };
  KGroupedArguments() = default;
  KGroupedArguments(PyObject* const* args, std::size_t count, PyObject* names);
  Index vector() const { return k_sizes; }
  nb::handle at[size];
};

// Keeps the imported arrays alive beside the views that point into them.
template <class Args>
struct GroupedCall {
  Operand a, b;
  Array groups;
  std::optional<Array> out, c, bias;
  Args args;
  DType out_dtype = DType::bfloat16;
  std::vector<std::int64_t> shape;  // of out
};
GroupedCall<GroupedArgs> import_call(const GroupedArguments& arguments);
GroupedCall<MaskedArgs> import_call(const MaskedArguments& arguments);
GroupedCall<KGroupedArgs> import_call(const KGroupedArguments& arguments);

// A new out where none was given, which `call.args` then has.
template <class Args>
std::optional<Output> allocate_out(GroupedCall<Args>& call) {
  if (call.out) return std::nullopt;
  const std::vector<std::int64_t>& s = call.shape;
  const Array& like = call.a.values;
  Output output = s.size() == 3 ? allocate_like(like, call.out_dtype, {s[0], s[1], s[2]})
                                : allocate_like(like, call.out_dtype, {s[0], s[1]});
  call.args.out = output.array.view;
  return output;
}

}  // namespace deepgemm::bindings
