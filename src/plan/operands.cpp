#include "plan/operands.hpp"

#include "core/text.hpp"
#include "device/common/quantize_rule.cuh"

namespace deepgemm::plan {
namespace {

std::int64_t stride_of(const TensorView& view, int dimension) {
  return view.shape[dimension] == 1 ? 0 : view.strides[dimension];
}

std::int64_t extent(std::int64_t granule, std::int64_t size) {
  return granule == Granularity::whole ? (size > 0 ? size : 1) : granule;
}

RowsByK resolve(const ScaledView& x, bool transposed, const Granularity& granularity) {
  RowsByK operand;
  const int row = transposed ? 1 : 0, k = 1 - row;
  operand.values = &x.values;
  operand.rows = x.values.shape[row];
  operand.k = x.values.shape[k];
  operand.row_stride = stride_of(x.values, row);
  operand.k_stride = stride_of(x.values, k);
  operand.rows_per_scale = extent(granularity.rows, operand.rows);
  operand.k_per_scale = extent(granularity.k, operand.k);
  if (x.sf) {
    operand.sf = &*x.sf;
    if (x.sf->rank == 2) {  // sf is [rows, k] whatever the layout of the values
      operand.sf_row_stride = stride_of(*x.sf, 0);
      operand.sf_k_stride = stride_of(*x.sf, 1);
    }
  }
  return operand;
}

// `granule` covers what blocks of `each` would in `size` elements.
bool covers(std::int64_t granule, std::int64_t each, std::int64_t size) {
  return granule == each || (size <= each && granule >= size);
}

device::ActivationType activation_type(Activation activation) {
  switch (activation) {
    case Activation::relu:
      return device::ActivationType::relu;
    case Activation::gelu:
      return device::ActivationType::gelu;
    case Activation::gelu_tanh:
      return device::ActivationType::gelu_tanh;
    case Activation::silu:
      return device::ActivationType::silu;
    default:
      return device::ActivationType::none;
  }
}

}  // namespace

bool RowsByK::scaled_by(std::int64_t rows_each, std::int64_t k_each) const {
  return sf != nullptr && sf->dtype == DType::float32 && covers(rows_per_scale, rows_each, rows) &&
         covers(k_per_scale, k_each, k);
}

RowsByK operand_a(const GemmArgs& args, const GemmProblem& problem) {
  return resolve(args.a, a_is_k_by_m(args.layout), problem.a_granularity);
}

RowsByK operand_b(const GemmArgs& args, const GemmProblem& problem) {
  return resolve(args.b, b_is_k_by_n(args.layout), problem.b_granularity);
}

RowsByK operand_of(const ScaledView& x, const Granularity& granularity) {
  return resolve(x, false, granularity);
}

device::ElementType element_type(DType dtype) {
  switch (dtype) {
    case DType::float8_e4m3fn:
      return device::ElementType::e4m3;
    case DType::float8_e5m2:
      return device::ElementType::e5m2;
    case DType::float8_e8m0fnu:
      return device::ElementType::e8m0;
    case DType::bfloat16:
      return device::ElementType::bf16;
    case DType::float16:
      return device::ElementType::f16;
    case DType::float32:
      return device::ElementType::f32;
    default:
      throw TypeError(complaint("dtype", name(dtype), "a floating type of at most 32 bits",
                                "on a CUDA device"));
  }
}

device::OperandParams operand_params(const RowsByK& operand) {
  device::OperandParams p{};
  p.data = operand.values->data;
  p.row = operand.row_stride;
  p.k = operand.k_stride;
  p.type = static_cast<int>(element_type(operand.values->dtype));
  p.rows_per_scale = operand.rows_per_scale;
  p.k_per_scale = operand.k_per_scale;
  if (operand.sf != nullptr) {
    p.sf = operand.sf->data;
    p.sf_row = operand.sf_row_stride;
    p.sf_k = operand.sf_k_stride;
    p.sf_type = static_cast<int>(element_type(operand.sf->dtype));
  }
  return p;
}

bool has_scaled_c(const GemmArgs& args) { return args.c && is_float8(args.c->dtype); }

void set_scalars(device::EpilogueParams& epilogue, float alpha, float out_scale, bool c_is_scaled) {
  epilogue.alpha = alpha;
  epilogue.c_scale = c_is_scaled ? out_scale : 1.0F;
  epilogue.inverse_out_scale = device::reciprocal_of_scale(out_scale);
}

device::EpilogueParams epilogue_params(const GemmArgs& args) {
  device::EpilogueParams e{};
  if (args.bias) {
    e.bias = args.bias->data;
    e.bias_step = stride_of(*args.bias, 0);
    e.bias_type = static_cast<int>(element_type(args.bias->dtype));
  }
  if (args.c) {
    e.c = args.c->data;
    e.c_row = stride_of(*args.c, 0);
    e.c_column = stride_of(*args.c, 1);
    e.c_type = static_cast<int>(element_type(args.c->dtype));
  }
  set_scalars(e, args.alpha, args.out_scale, has_scaled_c(args));
  e.activation = activation_type(args.activation);
  e.out_type = static_cast<int>(element_type(args.out.dtype));
  return e;
}

device::GeneralGemmParams general_params(const GemmProblem& problem, const GemmArgs& args) {
  device::GeneralGemmParams p{};
  p.a = operand_params(operand_a(args, problem));
  p.b = operand_params(operand_b(args, problem));
  p.out = args.out.data;
  p.out_row = args.out.strides[0];
  p.out_column = args.out.strides[1];
  p.m = problem.m;
  p.n = problem.n;
  p.k = problem.k;
  p.epilogue = epilogue_params(args);
  return p;
}

bool needs_epilogue(const GemmArgs& args) {
  return args.bias || args.c || args.alpha != 1.0F || args.activation != Activation::none ||
         is_float8(args.out.dtype);
}

bool only_accumulates(const GemmArgs& args) {
  return args.c && !is_float8(args.out.dtype) && args.c->dtype == args.out.dtype && !args.bias &&
         args.alpha == 1.0F && args.activation == Activation::none;
}

}  // namespace deepgemm::plan
