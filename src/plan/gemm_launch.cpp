// What each call fills into the parameters of a planned kernel, and its launch.
#include <algorithm>

#include "driver/driver.hpp"
#include "driver/range.hpp"
#include "plan/gemm_plan.hpp"
#include "plan/grouped_plan.hpp"
#include "plan/tma_matrices.hpp"

namespace deepgemm::plan {
namespace {

void set_factors(const RowsByK& x, const float*& data, device::i64& row, device::i64& k) {
  if (x.sf == nullptr) return;
  data = static_cast<const float*>(x.sf->data);
  row = x.sf_row_stride;
  k = x.sf_k_stride;
}

void set_out(const TensorView& out, void*& data, device::i64& row, device::i64& column) {
  data = out.data;
  row = out.strides[0];
  column = out.strides[1];
}

device::GemmParams gemm_params(const GemmPlan& plan, const GemmProblem& p, const GemmArgs& args,
                               const GroupLayout& stack, bool constant_b) {
  const device::GemmConfig& c = plan.choice.config;
  const RowsByK a = operand_a(args, p), b = operand_b(args, p);
  auto map = [&](const TmaMatrix& matrix, std::int64_t count, std::int64_t apart) {
    return tensor_map(c.stacked() ? stacked(matrix, count, apart) : matrix);
  };
  device::GemmParams params{};
  params.a = map(a_matrix(a, c), stack.a_matrices(), stack.a);
  params.b = map(b_matrix(b, c), stack.b_matrices(), stack.b);
  if (c.scaled() && c.scales_by_tma) {
    params.sfa = map(factor_matrix(a, c.tile_m, "sfa", stack), stack.a_matrices(), stack.sfa);
    if (c.column_scales) {
      params.sfb = map(factor_matrix(b, c.tile_n, "sfb", stack), stack.b_matrices(), stack.sfb);
    }
  }
  if (c.epilogue != device::Epilogue::general)
    params.out = map(out_matrix(args.out, c, "out"), stack.out_matrices(), stack.out);
  params.groups = {stack.vector,
                   stack.sfa,
                   stack.sfb,
                   stack.out,
                   stack.bias,
                   stack.c,
                   stack.a_stacked,
                   stack.b_stacked,
                   stack.out_stacked,
                   static_cast<int>(std::min<std::int64_t>(stack.blocks, device::max_group_tiles))};
  if (c.epilogue == device::Epilogue::accumulate)
    params.c = map(out_matrix(*args.c, c, "c"), stack.out_matrices(), stack.c);
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
  params.batch = static_cast<int>(stack.groups);
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
  params.k_blocks = static_cast<int>(p.k / c.block_elements());
  params.constant_b = constant_b;
  return params;
}

driver::LaunchShape shape_of(const GemmPlan& plan, const CallOptions& options) {
  driver::LaunchShape shape;
  shape.grid = static_cast<unsigned>(plan.grid);
  shape.block = static_cast<unsigned>(plan.threads);
  shape.cluster = static_cast<unsigned>(plan.cluster);
  shape.shared_bytes = static_cast<unsigned>(plan.shared_bytes);
  shape.pdl = options.pdl && plan.kernel != GemmKernel::general;  // it does not wait
  return shape;
}

}  // namespace

void run(const GemmPlan& plan, CUfunction function, const GemmProblem& problem,
         const GemmArgs& args, const GemmBatch& batch, const CallOptions& options) {
  const driver::Range range(plan.range);
  const driver::LaunchShape shape = shape_of(plan, options);
  if (plan.kernel == GemmKernel::persistent) {
    device::GemmParams params =
        gemm_params(plan, problem, args, batch_layout(batch), options.constant_b);
    driver::launch(function, shape, options.stream, &params);
  } else if (plan.kernel == GemmKernel::decode) {
    device::DecodeParams params = decode_params(plan, problem, args, options.constant_b);
    driver::launch(function, shape, options.stream, &params);
  } else {
    device::GeneralGemmParams params = general_params(problem, args);
    driver::launch(function, shape, options.stream, &params);
  }
}

void run(const GemmPlan& plan, CUfunction function, const GroupedCall& call,
         const CallOptions& options) {
  const driver::Range range(plan.range);
  device::GemmParams params =
      gemm_params(plan, call.product, call.first, call.layout, options.constant_b);
  driver::launch(function, shape_of(plan, options), options.stream, &params);
}

}  // namespace deepgemm::plan
