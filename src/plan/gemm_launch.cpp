// What each call fills into the parameters of a planned kernel, and its launch.
#include "driver/driver.hpp"
#include "plan/gemm_plan.hpp"
#include "plan/tma_matrices.hpp"

namespace deepgemm::plan {
namespace {

void set_factors(const RowsByK& x, const float*& data, device::i64& row, device::i64& k) {
  data = static_cast<const float*>(x.sf->data);
  row = x.sf_row_stride;
  k = x.sf_k_stride;
}

void set_out(const TensorView& out, void*& data, device::i64& row, device::i64& column) {
  data = out.data;
  row = out.strides[0];
  column = out.strides[1];
}

device::GemmParams fp8_params(const GemmPlan& plan, const GemmProblem& p, const GemmArgs& args,
                              bool constant_b) {
  const device::GemmConfig& c = plan.choice.config;
  const RowsByK a = operand_a(args, p), b = operand_b(args, p);
  device::GemmParams params{};
  params.a = tensor_map(a_matrix(a, c));
  params.b = tensor_map(b_matrix(b, c));
  if (c.scales_by_tma) {
    params.sfa = tensor_map(factor_matrix(a, c.tile_m, "sfa"));
    if (c.column_scales) params.sfb = tensor_map(factor_matrix(b, c.tile_n, "sfb"));
  }
  if (c.epilogue != device::Epilogue::general)
    params.out = tensor_map(out_matrix(args.out, c, "out"));
  if (c.epilogue == device::Epilogue::accumulate)
    params.c = tensor_map(out_matrix(*args.c, c, "c"));
  set_factors(a, params.sfa_data, params.sfa_row, params.sfa_k);
  set_factors(b, params.sfb_data, params.sfb_row, params.sfb_k);
  set_out(args.out, params.out_data, params.out_row, params.out_column);
  params.epilogue = epilogue_params(args);
  params.m = static_cast<int>(p.m);
  params.n = static_cast<int>(p.n);
  params.k = static_cast<int>(p.k);
  params.a_policy = plan.choice.a_policy;
  params.b_policy = plan.choice.b_policy;
  params.raster_group = plan.choice.raster_group;
  params.raster_along_n = plan.choice.raster_along_n;
  params.constant_b = constant_b;
  return params;
}

device::DecodeParams decode_params(const GemmPlan& plan, const GemmProblem& p, const GemmArgs& args,
                                   bool constant_b) {
  const device::DecodeConfig& c = plan.decode.config;
  const RowsByK a = operand_a(args, p), b = operand_b(args, p);
  device::DecodeParams params{};
  params.rows = tensor_map(decode_matrix(b, c.rows(), c.stage_blocks, "b"));
  params.tokens = tensor_map(decode_matrix(a, c.tokens, c.stage_blocks, "a"));
  set_factors(a, params.sfa, params.sfa_row, params.sfa_k);
  set_factors(b, params.sfb, params.sfb_row, params.sfb_k);
  set_out(args.out, params.out, params.out_row, params.out_column);
  params.epilogue = epilogue_params(args);
  params.m = static_cast<int>(p.m);
  params.n = static_cast<int>(p.n);
  params.k_blocks = static_cast<int>(p.k / device::block_k);
  params.constant_b = constant_b;
  return params;
}

}  // namespace

void run(const GemmPlan& plan, CUfunction function, const GemmProblem& problem,
         const GemmArgs& args, const CallOptions& options) {
  driver::LaunchShape shape;
  shape.grid = static_cast<unsigned>(plan.grid);
  shape.block = static_cast<unsigned>(plan.threads);
  shape.cluster = static_cast<unsigned>(plan.cluster);
  shape.shared_bytes = static_cast<unsigned>(plan.shared_bytes);
  shape.pdl = options.pdl && plan.kernel != GemmKernel::general;  // it does not wait
  if (plan.kernel == GemmKernel::fp8) {
    device::GemmParams params = fp8_params(plan, problem, args, options.constant_b);
    driver::launch(function, shape, options.stream, &params);
  } else if (plan.kernel == GemmKernel::decode) {
    device::DecodeParams params = decode_params(plan, problem, args, options.constant_b);
    driver::launch(function, shape, options.stream, &params);
  } else {
    device::GeneralGemmParams params = general_params(problem, args);
    driver::launch(function, shape, options.stream, &params);
  }
}

}  // namespace deepgemm::plan
