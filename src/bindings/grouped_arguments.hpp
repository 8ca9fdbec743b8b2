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

// As GemmCall.
template <class Args>
struct GroupedCall {
  GroupedCall(const ArrayHandles& arrays, const ProductOptions& options);

  Args args;
  Operand a, b;
  Array out, c, bias, groups;
  DType out_dtype = DType::bfloat16;
  std::vector<std::int64_t> shape;  // of out
};

// As `at[...]` of each: borrowed.
struct GroupedArguments {
  using Call = GroupedCall<GroupedArgs>;
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
  ArrayHandles arrays() const;
  ProductOptions options() const;
  nb::handle at[size];
};

struct MaskedArguments {
  using Call = GroupedCall<MaskedArgs>;
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
  ArrayHandles arrays() const;
  ProductOptions options() const;
  nb::handle at[size];
};

struct KGroupedArguments {
  using Call = GroupedCall<KGroupedArgs>;
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
  ArrayHandles arrays() const;
  ProductOptions options() const;
  nb::handle at[size];
};

// A new out where none was given, which `call.args` then has.
template <class Args>
std::optional<Output> allocate_out(GroupedCall<Args>& call) {
  if (call.out.given()) return std::nullopt;
  const std::vector<std::int64_t>& s = call.shape;
  const Array& like = call.a.values;
  Output output = s.size() == 3 ? allocate_like(like, call.out_dtype, {s[0], s[1], s[2]})
                                : allocate_like(like, call.out_dtype, {s[0], s[1]});
  call.args.out = output.view;
  return output;
}

}  // namespace deepgemm::bindings
