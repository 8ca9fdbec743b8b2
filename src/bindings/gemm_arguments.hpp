// The arguments of deepgemm.gemm, and of a plan of it.
#pragma once

#include <cstddef>

#include "bindings/arguments.hpp"
#include "bindings/fast_call.hpp"

namespace deepgemm::bindings {

struct GemmArguments {
  using Call = GemmCall;
  enum Index : std::size_t {
    a,
    b,
    out,
    c,
    bias,
    activation,
    alpha,
    out_dtype,
    out_scale,
    layout,
    granularity,
    policy,
    stream,
    accumulate_in_f64,
    size
  };
  GemmArguments() = default;
  GemmArguments(PyObject* const* args, std::size_t count, PyObject* names);
  ArrayHandles arrays() const;
  ProductOptions options() const;

  nb::handle at[size];  // borrowed
};

}  // namespace deepgemm::bindings
